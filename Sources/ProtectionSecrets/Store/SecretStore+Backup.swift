package import DataProtection
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
    /// The copy appears whole, in place of an earlier one, and lasts when this returns.
    /// - Parameter keys: those that the backup has: what nobody could ever open is not copied.
    package func copy(to path: FilePath, having keys: SecretKeyNames) throws(SecretError) -> SecretBackupResult {
        let temporary = path.directory.appending("\(path.lastComponent?.string ?? "secrets").new")
        var result = SecretBackupResult()
        let rows = try read { try Row.fetchAll($0, sql: "SELECT \(SecretSchema.columns) FROM secrets") }
        var copied: [SecretRow] = []
        for row in rows {
            guard let row = SecretRow(row) else {
                result.failures.append(.storeDamaged(self.path, reason: "a secret holds what none of ours does"))
                continue
            }
            let name = ClassKeyName(
                keybag: keybag.uuid, kind: .secrets, protectionClass: row.record.accessibility.protectionClass,
                generation: row.generation)
            if row.record.accessibility.isThisDeviceOnly {
                result.leftOut += 1
            } else if keys.contains(name) {
                copied.append(row)
            } else {
                result.withoutKey += 1
            }
        }
        result.done = copied.count
        try Self.write(copied, to: path, through: temporary)
        return result
    }

    private static func write(
        _ rows: [SecretRow], to path: FilePath, through temporary: FilePath
    ) throws(SecretError) {
        try files { () throws(DataProtectionError) in
            for name in [temporary, FilePath(temporary.string + "-journal")] { try AtomicReplace.remove(name) }
        }
        try SharedDatabase.translating(temporary, SecretError.init) {
            guard temporary.withPlatformString({ mknod($0, S_IFREG | 0o600, 0) }) == 0 else {
                throw SecretError.protection(.system(temporary, operation: "mknod", Errno(rawValue: errno)))
            }
            let database = try DatabaseQueue(path: temporary.string)
            try SecretSchema.migrator.migrate(database)
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
        from path: FilePath, _ keys: borrowing SecretKeyList, replacing: Bool, isTrial: Bool
    ) throws(SecretError) -> SecretBackupResult {
        let rows = try Self.rows(of: path)
        var result = SecretBackupResult()
        for row in rows {
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

    /// Nil for each that makes no sense.
    private static func rows(of path: FilePath) throws(SecretError) -> [SecretRow?] {
        try SharedDatabase.translating(path, SecretError.init) {
            var configuration = Configuration()
            configuration.readonly = true
            let database = try DatabaseQueue(path: path.string, configuration: configuration)
            defer { try? database.close() }
            return try database.read { database in
                if try SecretSchema.migrator.hasBeenSuperseded(database) { throw SecretError.storeNewer(path) }
                return try Row.fetchAll(database, sql: "SELECT \(SecretSchema.columns) FROM secrets").map {
                    SecretRow($0)
                }
            }
        }
    }

    /// - Returns: nil if the backup has not got the class key.
    private static func open(
        _ row: SecretRow, _ keys: borrowing SecretKeyList, _ path: FilePath
    ) throws(SecretError) -> SecretBytes? {
        let record = row.record
        let name = ClassKeyName(
            keybag: keys.keybag, kind: .secrets, protectionClass: record.accessibility.protectionClass,
            generation: row.generation)
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
        }
        throw .damaged(record.name, path, reason: "its value does not open")
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
