import DataProtection
import GRDB
import ProtectionKeys
import SharedDatabase

/// The secrets in one database of a backup, found by what no two rows of it have in common. FORMAT.md §2.16.
///
/// A backup may be a stranger's: nothing but a table of ours is read, from a copy in memory, so that no link is followed and nothing made
/// beside it.
struct BackedUpSecrets {
    private(set) var rows: [SecretRow] = []
    /// How many rows make no sense.
    private(set) var senseless = 0
    private var byID: [[UInt8]: [Int]] = [:]
    private var byName: [[UInt8]: [Int]] = [:]

    /// Reads the database of that name in a backup's directory; nothing if there is none.
    ///
    /// - Throws: `storeDamaged`, `storeNewer`, `store`, `protection`.
    init(_ name: FilePath.Component, in backup: LowerDirectory) throws(SecretError) {
        let path = backup.path.entry(name)
        let stored: [UInt8]?
        do throws(DataProtectionError) { stored = try Backup.secrets(name, in: backup) } catch {
            throw .protection(error)
        }
        guard let stored else { return }
        let found = try SharedDatabase.translating(path, SecretError.init) {
            let database = try SharedDatabase.inMemory(stored, path)
            try database.read { try SecretSchema.definitions.check($0, path) }
            return try database.read { database in
                let rows = try Row.fetchCursor(database, sql: "SELECT \(SecretSchema.columns) FROM secrets")
                return try Array(rows.map { SecretRow($0) })
            }
        }
        for row in found {
            if let row { add(row) } else { senseless += 1 }
        }
    }

    private mutating func add(_ row: SecretRow) {
        byID[row.record.id, default: []].append(rows.count)
        byName[row.record.nameBytes, default: []].append(rows.count)
        rows.append(row)
    }

    private func numbers(with record: SecretRecord) -> [Int] {
        byID[record.id, default: []] + byName[record.nameBytes, default: []]
    }

    /// The rows that one table cannot have together with one of that id and name.
    func conflicting(with record: SecretRecord) -> [SecretRow] {
        Set(numbers(with: record)).sorted().map { rows[$0] }
    }

    /// The rows that conflict with none of these.
    func rows(besides records: [SecretRecord]) -> [SecretRow] {
        let gone = Set(records.flatMap(numbers))
        return rows.indices.filter { !gone.contains($0) }.map { rows[$0] }
    }

    /// Replaces the database of that name by one with these rows; of two that conflict the later one stays.
    ///
    /// It appears whole, and lasts when this returns. Without rows there is none.
    static func replace(
        _ name: FilePath.Component, in backup: LowerDirectory, by rows: [SecretRow], keepsEmpty: Bool
    ) throws(SecretError) {
        let path = backup.path.entry(name)
        if rows.isEmpty, !keepsEmpty {
            return try files { () throws(DataProtectionError) in
                guard try backup.status(of: name) != nil else { return }
                try backup.remove(name)
                try backup.flush()
            }
        }
        let bytes: [UInt8]
        do throws(SharedDatabaseError) {
            bytes = try SharedDatabase.image(path, SecretSchema.definitions) { database in
                for row in rows { try SecretStore.insert(row, database) }
            }
        } catch {
            throw SecretError(error)
        }
        try files { () throws(DataProtectionError) in try Backup.replaceSecrets(name, by: bytes, in: backup) }
    }

    private static func files(_ body: () throws(DataProtectionError) -> Void) throws(SecretError) {
        do throws(DataProtectionError) { try body() } catch { throw .protection(error) }
    }
}

extension SecretRecord {
    /// Group and name as the database compares them: texts that Swift calls equal can have other bytes.
    fileprivate var nameBytes: [UInt8] {
        let columns = SecretColumns(name)
        var bytes = [columns.kind.rawValue]
        for text in [group.description, "\(columns.port)"] + columns.texts.map(\.1) { bytes += Array(text.utf8) + [0] }
        return bytes
    }
}

extension SecretRow {
    /// Whether all that is stored of both is the same.
    func isSame(as other: SecretRow, of keybag: KeybagUUID) -> Bool {
        record.associatedData(keybag) == other.record.associatedData(keybag) && generation == other.generation
            && wrapped.bytes == other.wrapped.bytes && value == other.value
    }
}
