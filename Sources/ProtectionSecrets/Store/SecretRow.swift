import FoundationEssentials
import GRDB
import ProtectionKeys
import SharedDatabase

/// A row of the table, its value still sealed. FORMAT.md §2.15.
struct SecretRow: Sendable {
    var record: SecretRecord
    /// Of the class key of secrets.
    var generation: UInt32
    /// 40 bytes.
    var wrapped: WrappedKey
    var value: [UInt8]

    init(record: SecretRecord, generation: UInt32, wrapped: WrappedKey, value: [UInt8]) {
        (self.record, self.generation, self.wrapped, self.value) = (record, generation, wrapped, value)
    }

    /// Bytes of a sealed value.
    private static let valueLengths = ItemKey.overhead...(SecretStore.maximumValueLength + ItemKey.overhead)

    /// Reads what the columns of ``SecretSchema/columns`` hold; nil if it makes no sense.
    init?(_ row: Row) {
        let values = StoredRow(row)
        let kind = SecretName.Kind(rawValue: UInt8(values.number(1, in: 0...255)))
        let accessibility = SecretAccessibility(rawValue: UInt8(values.number(2, in: 0...255)))
        guard let kind, let accessibility else { return nil }
        var columns = SecretColumns(.genericPassword(service: "", account: ""))
        columns.kind = kind
        (columns.service, columns.account) = (values.text(4), values.text(5))
        (columns.protocol, columns.host) = (values.text(6), values.text(7))
        columns.port = Int(values.number(8, in: 0...65_535))
        (columns.path, columns.realm, columns.name) = (values.text(9), values.text(10), values.text(11))
        guard let name = columns.secret, let group = AccessGroup(stored: values.text(3)) else { return nil }
        do throws(SecretError) { try name.check() } catch { return nil }
        record = SecretRecord(
            id: values.bytes(0), name: name, group: group, accessibility: accessibility, createdAt: values.number(12),
            modifiedAt: values.number(13))
        generation = UInt32(values.number(14, in: 1...Int64(UInt32.max)))
        wrapped = WrappedKey(bytes: values.bytes(15))
        value = values.bytes(16)
        guard !values.isDamaged, record.id.count == 16, wrapped.bytes.count == 40,
            Self.valueLengths ~= value.count
        else { return nil }
    }

    /// What its key is wrapped by.
    func classKey(of keybag: KeybagUUID) -> ClassKeyName {
        record.accessibility.classKey(of: keybag, generation: generation)
    }

    /// For the columns of ``SecretSchema/columns``.
    var arguments: StatementArguments {
        let columns = SecretColumns(record.name)
        return [
            Data(record.id), Int64(columns.kind.rawValue), Int64(record.accessibility.rawValue),
            record.group.description,
            columns.service, columns.account, columns.protocol, columns.host, Int64(columns.port), columns.path,
            columns.realm, columns.name, record.createdAt, record.modifiedAt, Int64(generation), Data(wrapped.bytes),
            Data(value),
        ]
    }
}

extension SecretRow {
    /// The same row with another accessibility.
    func saying(_ accessibility: SecretAccessibility) -> SecretRow {
        var row = self
        row.record = SecretRecord(
            id: record.id, name: record.name, group: record.group, accessibility: accessibility,
            createdAt: record.createdAt, modifiedAt: record.modifiedAt)
        return row
    }

    /// What changes while a secret keeps its name, and then its id.
    var changeableArguments: StatementArguments {
        [
            Int64(record.accessibility.rawValue), record.modifiedAt, Int64(generation), Data(wrapped.bytes),
            Data(value),
            Data(record.id),
        ]
    }
}

extension SecretRecord {
    /// What the value is bound to.
    func associatedData(_ keybag: KeybagUUID) -> [UInt8] {
        let columns = SecretColumns(name)
        var bytes = Array("protectfs/1 secret".utf8) + [0] + keybag.bytes + id
        bytes += [columns.kind.rawValue, accessibility.rawValue]
        func append<Integer: FixedWidthInteger>(_ integer: Integer) {
            withUnsafeBytes(of: integer.littleEndian) { bytes += $0 }
        }
        append(UInt32(columns.port))
        append(createdAt)
        append(modifiedAt)
        for text in [group.description] + columns.texts.map(\.1) {
            append(UInt32(text.utf8.count))
            bytes += text.utf8
        }
        return bytes
    }
}
