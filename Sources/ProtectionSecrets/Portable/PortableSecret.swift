import FoundationEssentials

/// What is known of a secret, as an export has it: one line of JSON. FORMAT.md §2.17.
struct PortableSecret: Codable {
    var kind: String
    var service, account, `protocol`, host, path, realm, name: String?
    var port: Int?
    var accessibility: String
    var group: String

    init(_ record: SecretRecord) {
        kind = record.name.kind.word
        (accessibility, group) = (record.accessibility.name, record.group.description)
        let columns = SecretColumns(record.name)
        func given(_ text: String) -> String? { text.isEmpty ? nil : text }
        (service, account, `protocol`) = (given(columns.service), given(columns.account), given(columns.protocol))
        (host, path, realm, name) = (
            given(columns.host), given(columns.path), given(columns.realm), given(columns.name)
        )
        port = columns.port == 0 ? nil : columns.port
    }

    /// What it says; nil if that makes no sense.
    var secret: (name: SecretName, accessibility: SecretAccessibility, group: AccessGroup)? {
        guard let kind = SecretName.Kind.allCases.first(where: { $0.word == kind }),
            let accessibility = SecretAccessibility(name: accessibility),
            let group = AccessGroup(stored: group)
        else { return nil }
        var columns = SecretColumns(.identity(name: ""))
        columns.kind = kind
        (columns.service, columns.account) = (service ?? "", account ?? "")
        (columns.protocol, columns.host) = ((`protocol` ?? "").lowercased(), (host ?? "").lowercased())
        columns.path = path ?? ""
        (columns.realm, columns.name, columns.port) = (realm ?? "", name ?? "", port ?? 0)
        return columns.secret.map { ($0, accessibility, group) }
    }

    /// One line.
    func line() throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return Array(try encoder.encode(self))
    }
}
