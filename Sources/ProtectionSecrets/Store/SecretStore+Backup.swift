import DataProtection
import FoundationEssentials
import GRDB
import Glibc
import ProtectionKeys
import SharedDatabase

/// What a backup, or a restore, did with secrets.
package struct SecretBackupResult: Sendable {
    /// Copied, or brought back.
    package fileprivate(set) var done = 0
    /// Of this device only; or, in a restore, there already with the same value.
    package fileprivate(set) var leftOut = 0
    /// Those whose class key the backup has not got.
    package fileprivate(set) var withoutKey = 0
    /// Rows of a backup that make no sense, and those that could not be brought back.
    package fileprivate(set) var failures: [SecretError] = []
}

/// Secrets in a backup: the same table, rows as they are stored, those of this device only left out. FORMAT.md §2.16.
extension SecretStore {
    /// Copies secrets as they are stored. In every lock state; no key is needed.
    ///
    /// The copy appears whole, in place of an earlier one, and lasts when this returns. What cannot be copied now, because its class key
    /// or sense is missing, keeps its earlier copy.
    /// - Parameters:
    ///   - backup: the backup's directory.
    ///   - keys: those that the backup has: what nobody could ever open is not copied.
    package func copy(to backup: FilePath, having keys: SecretKeyNames) throws(SecretError) -> SecretBackupResult {
        var result = SecretBackupResult()
        let rows = try read { try Row.fetchAll($0, sql: "SELECT \(SecretSchema.columns) FROM secrets") }
        var copied: [SecretRow] = []
        var keeping: Set<[UInt8]> = []
        var keepsAll = false
        for row in rows {
            guard let decoded = SecretRow(row) else {
                result.failures.append(.storeDamaged(path, reason: "a secret holds what none of ours does"))
                // Which one it was may be among what was altered.
                let id = StoredRow(row).bytes(0)
                if id.count == 16 { keeping.insert(id) } else { keepsAll = true }
                continue
            }
            if decoded.record.accessibility.isThisDeviceOnly {
                result.leftOut += 1
            } else if keys.contains(decoded.classKey(of: keybag.uuid)) {
                copied.append(decoded)
            } else {
                result.withoutKey += 1
                keeping.insert(decoded.record.id)
            }
        }
        result.done = copied.count
        var earlier: [SecretRow] = []
        if keepsAll || !keeping.isEmpty {
            earlier = try Self.rows(of: backup).compactMap(\.self)
                .filter { keepsAll || keeping.contains($0.record.id) }
        }
        // In this order: of two with one id or name the later one stays.
        try Self.write(earlier + copied, to: backup.appending(Backup.secretsName))
        return result
    }

    private static func write(_ rows: [SecretRow], to path: FilePath) throws(SecretError) {
        let temporary = FilePath(path.string + ".new")
        try files { () throws(DataProtectionError) in
            for name in [temporary, FilePath(temporary.string + "-journal")] { try AtomicReplace.remove(name) }
        }
        try SharedDatabase.translating(temporary, SecretError.init) {
            guard temporary.withPlatformString({ mknod($0, S_IFREG | 0o600, 0) }) == 0 else {
                throw SecretError.protection(.system(temporary, operation: "mknod", Errno(rawValue: errno)))
            }
            let database = try DatabaseQueue(path: temporary.string)
            try database.write { try SecretSchema.definitions.prepare($0, temporary) }
            try database.write { database in for row in rows { try insert(row, database) } }
            try database.close()
        }
        try files { () throws(DataProtectionError) in
            try AtomicReplace.flush(temporary)
            try AtomicReplace.rename(temporary, to: path)
            try AtomicReplace.flushDirectory(path.directory)
        }
    }

    /// Brings secrets of a backup back, under this keybag's class keys: each in the group that it was in.
    ///
    /// - Parameters:
    ///   - keys: the class keys that the backup has.
    ///   - replacing: whether one that is there, with another value, is replaced; else it is a failure, `exists`.
    ///   - isTrial: only opens each, and stores nothing.
    /// - Throws: `storeDamaged`, `storeNewer`, `store` for the copy as a whole; `needsUnlock`.
    package func restore(
        from backup: FilePath, _ keys: borrowing SecretKeyList, replacing: Bool, isTrial: Bool
    ) throws(SecretError) -> SecretBackupResult {
        let path = backup.appending(Backup.secretsName)
        var result = SecretBackupResult()
        for row in try Self.rows(of: backup) {
            do throws(SecretError) {
                guard let row else { throw .storeDamaged(path, reason: "a secret holds what none of ours does") }
                guard let value = try Self.open(row, keys, path) else {
                    result.withoutKey += 1
                    continue
                }
                if isTrial {
                    result.done += 1
                } else if try put(row.record, value, replacing: replacing) {
                    result.done += 1
                } else {
                    result.leftOut += 1
                }
            } catch {
                result.failures.append(error)
            }
        }
        return result
    }

    /// Nil for each that makes no sense. A backup may be a stranger's: nothing but a table of ours is read, from a copy in memory, so that
    /// no link is followed and nothing made beside it.
    private static func rows(of backup: FilePath) throws(SecretError) -> [SecretRow?] {
        let path = backup.appending(Backup.secretsName)
        let stored: [UInt8]?
        do throws(DataProtectionError) { stored = try Backup.secrets(in: backup) } catch { throw .protection(error) }
        guard let stored else { return [] }
        return try SharedDatabase.translating(path, SecretError.init) {
            let database = try SharedDatabase.inMemory(stored, path)
            try database.read { try SecretSchema.definitions.check($0, path) }
            return try database.read { database in
                let rows = try Row.fetchCursor(database, sql: "SELECT \(SecretSchema.columns) FROM secrets")
                return try Array(rows.map { SecretRow($0) })
            }
        }
    }

    /// - Returns: nil if the backup has not got the class key.
    private static func open(
        _ row: SecretRow, _ keys: borrowing SecretKeyList, _ path: FilePath
    ) throws(SecretError) -> SecretBytes? {
        let record = row.record
        let name = row.classKey(of: keys.keybag)
        guard keys.contains(name) else { return nil }
        let uuid = keys.keybag
        do throws(KeyError) {
            let value = try keys.withKey(name) { key throws(KeyError) -> SecretBytes? in
                do throws(KeyError) {
                    return try key.unwrapItem(row.wrapped).open(row.value, boundTo: record.associatedData(uuid))
                } catch .unwrapFailed {
                    return nil
                }
            }
            if let value { return value }
        } catch {
            guard case .authenticationFailed = error else { throw .cryptography(error) }
            throw .damaged(record.name, path, reason: "its value does not open")
        }
        throw .otherKey(record.name, generation: row.generation)
    }

    /// One that is there and does not open gives way as any other does.
    ///
    /// - Returns: false if the same value is there already.
    private func put(
        _ record: SecretRecord, _ value: borrowing SecretBytes, replacing: Bool
    ) throws(SecretError) -> Bool {
        return try write { database in
            do throws(SecretError) {
                if let old = try self.value(of: record, database) {
                    if old.isEqual(to: value) { return false }
                    guard replacing else { throw .exists(record.name, record.group) }
                }
            } catch {
                guard error.leavesNoValue else { throw error }
                guard replacing else { throw SecretError.exists(record.name, record.group) }
            }
            try put(record.name, value, record.group, database, heals: true) { _ in record.accessibility }
            return true
        }
    }

    /// What is there under the name of a record; nil if nothing is.
    private func value(of record: SecretRecord, _ database: Database) throws(SecretError) -> SecretBytes? {
        let found = try SharedDatabase.translating(path, SecretError.init) {
            try row(record.name, record.group, database)
        }
        guard let found else { return nil }
        return try open(found)
    }

    private static func files(_ body: () throws(DataProtectionError) -> Void) throws(SecretError) {
        do throws(DataProtectionError) { try body() } catch { throw .protection(error) }
    }
}
