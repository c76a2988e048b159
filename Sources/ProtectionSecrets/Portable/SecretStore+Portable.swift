import FoundationEssentials
import GRDB
import ProtectionKeys

/// What an export did.
public struct SecretExportResult: Hashable, Sendable {
    /// How many secrets were written.
    public internal(set) var exported = 0
    /// How many are of this device only, and were left out.
    public internal(set) var leftOut = 0
}

/// Secrets as text, values included: FORMAT.md §2.17.
extension SecretStore {
    private static let heading = "protectfs secrets 1"
    /// Attributes of the longest kind, each of their characters escaped; values are shorter.
    private static let longestLine = 8 * 6 * SecretName.maximumLength

    /// Gives all secrets of a scope to `write`, in clear. Those of this device only are left out.
    ///
    /// - Throws: `locked`, before anything was written, if one of them cannot be read now; `damaged`; `notFound` if somebody deletes
    ///   one meanwhile; what `write` throws.
    public func export(
        _ scope: SecretScope, to write: (UnsafeRawBufferPointer) throws -> Void
    ) throws -> SecretExportResult {
        func line(_ bytes: [UInt8]) throws { try (bytes + [UInt8(ascii: "\n")]).withUnsafeBytes(write) }
        let found = try find(in: scope)
        guard found.damaged == 0 else {
            throw SecretError.storeDamaged(path, reason: "\(found.damaged) of its secrets make no sense")
        }
        let records = found.records.filter { !$0.accessibility.isThisDeviceOnly }
        // What opens one of an accessibility opens all of it.
        for accessibility in SecretAccessibility.allCases {
            guard let first = records.first(where: { $0.accessibility == accessibility }) else { continue }
            _ = try value(of: first.name, in: first.group)
        }
        try line(Array(Self.heading.utf8))
        for record in records {
            try line(PortableSecret(record).line())
            try SecretBase64.encode(value(of: record.name, in: record.group)).withUnsafeBytes(write)
            try line([])
        }
        try line(Array("end \(records.count)".utf8))
        return SecretExportResult(exported: records.count, leftOut: found.records.count - records.count)
    }

    /// Reads what ``export(_:to:)`` wrote: all of it, or nothing.
    ///
    /// - Parameters:
    ///   - replacing: whether secrets that are there are replaced.
    ///   - read: fills a buffer, and says how many bytes it put there; 0 at the end.
    /// - Returns: how many secrets there were.
    /// - Throws: `invalid` for what is no export, or is not all of one; `exists`; `locked`; what `read` throws.
    @discardableResult
    public func importSecrets(
        replacing: Bool = false, from read: (UnsafeMutableRawBufferPointer) throws -> Int
    ) throws -> Int {
        // All of it first: writers must not wait for a slow pipe.
        let items = try withoutActuallyEscaping(read) { read in
            var lines = SecretLineReader(longest: Self.longestLine, read)
            return try Self.items(of: &lines)
        }
        return try write { database in
            for item in items {
                try put(item.name, item.value, item.group, database, heals: replacing) { old, wasDamaged in
                    guard old == nil || replacing else { throw SecretError.exists(item.name, item.group) }
                    return try self.accessibility(atLeast: item.accessibility, replacing: old, wasDamaged: wasDamaged)
                }
            }
            return items.count
        }
    }

    /// A secret of an export, its value where secrets live.
    final class Item: Sendable {
        let name: SecretName
        let accessibility: SecretAccessibility
        let group: AccessGroup
        let value: SecretBytes

        init(
            _ secret: (name: SecretName, accessibility: SecretAccessibility, group: AccessGroup),
            _ value: consuming SecretBytes
        ) {
            (name, accessibility, group) = secret
            self.value = value
        }
    }

    static func items(of lines: inout SecretLineReader) throws -> [Item] {
        guard let heading = try lines.next(), heading.withUnsafeBytes({ $0.elementsEqual(Self.heading.utf8) }) else {
            throw SecretError.invalid(reason: "this is no export of secrets: its first line is not \"\(Self.heading)\"")
        }
        var items: [Item] = []
        while let line = try lines.next() {
            // Of a value on the wrong line no String is made.
            guard isDescription(line) else {
                throw malformed(items.count, "its first line is no description of a secret")
            }
            let description = text(line)
            if description == "end \(items.count)" {
                guard try lines.next() == nil else { throw malformed(items.count, "something follows its end") }
                return items
            }
            guard let portable = try? JSONDecoder().decode(PortableSecret.self, from: Data(description.utf8)),
                let secret = portable.secret
            else { throw malformed(items.count, "its first line is no description of a secret") }
            guard let encoded = try lines.next(), let value = SecretBase64.decode(encoded) else {
                throw malformed(items.count, "its value is no base 64")
            }
            items.append(Item(secret, value))
        }
        throw SecretError.invalid(reason: "the export is cut off: it has no line \"end \(items.count)\"")
    }

    private static func malformed(_ count: Int, _ reason: String) -> SecretError {
        .invalid(reason: "secret \(count + 1) of the export: \(reason)")
    }

    private static func isDescription(_ line: borrowing SecretBytes) -> Bool {
        line.withUnsafeBytes { $0.first == UInt8(ascii: "{") || $0.starts(with: "end ".utf8) }
    }

    /// A line that is not secret.
    private static func text(_ line: borrowing SecretBytes) -> String {
        line.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    }
}
