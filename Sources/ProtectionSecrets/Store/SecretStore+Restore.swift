import DataProtection
import GRDB
import ProtectionKeys
import SharedDatabase

extension SecretStore {
    /// Brings secrets of a backup back, under this keybag's class keys: each in the group that it was in.
    ///
    /// Where a copy does not open and an earlier one was kept beside it, that one is brought back.
    /// - Parameters:
    ///   - backup: the backup's directory.
    ///   - keys: the class keys that the backup has.
    ///   - replacing: whether one that is there, with another value, is replaced; else it is a failure, `exists`.
    ///   - isTrial: only opens each, and stores nothing.
    /// - Throws: `storeDamaged`, `storeNewer`, `store` for the copy as a whole; `needsUnlock`.
    package func restore(
        from backup: LowerDirectory, _ keys: borrowing SecretKeyList, replacing: Bool, isTrial: Bool
    ) throws(SecretError) -> SecretBackupResult {
        let path = backup.path.entry(Backup.secretsName)
        var result = SecretBackupResult()
        let copies = try BackedUpSecrets(Backup.secretsName, in: backup)
        for _ in 0..<copies.senseless {
            result.failures.append(.storeDamaged(path, reason: "a secret holds what none of ours does"))
        }
        var earlier: BackedUpSecrets?
        do throws(SecretError) { earlier = try BackedUpSecrets(Backup.earlierSecretsName, in: backup) } catch {
            result.failures.append(error)
        }
        for row in copies.rows {
            do throws(SecretError) {
                let value: SecretBytes?
                do throws(SecretError) { value = try Self.open(row, keys, path) } catch {
                    let old = earlier?.conflicting(with: row.record) ?? []
                    guard try bringBack(oneOf: old, keys, path, replacing, isTrial, &result) else { throw error }
                    result.restoredEarlier.append(error)
                    continue
                }
                guard let value else {
                    result.withoutKey += 1
                    continue
                }
                try bringBack(row.record, value, replacing, isTrial, &result)
            } catch {
                result.failures.append(error)
            }
        }
        // Those of which the later copy makes no sense.
        for row in earlier?.rows ?? [] where copies.conflicting(with: row.record).isEmpty {
            do throws(SecretError) {
                _ = try bringBack(oneOf: [row], keys, path, replacing, isTrial, &result)
            } catch {
                result.failures.append(error)
            }
        }
        return result
    }

    /// - Returns: false if none of them opens.
    private func bringBack(
        oneOf rows: [SecretRow], _ keys: borrowing SecretKeyList, _ path: FilePath, _ replacing: Bool, _ isTrial: Bool,
        _ result: inout SecretBackupResult
    ) throws(SecretError) -> Bool {
        for row in rows {
            let value: SecretBytes?
            do throws(SecretError) { value = try Self.open(row, keys, path) } catch { continue }
            guard let value else { continue }
            try bringBack(row.record, value, replacing, isTrial, &result)
            return true
        }
        return false
    }

    private func bringBack(
        _ record: SecretRecord, _ value: borrowing SecretBytes, _ replacing: Bool, _ isTrial: Bool,
        _ result: inout SecretBackupResult
    ) throws(SecretError) {
        let isNew: Bool
        if isTrial { isNew = true } else { isNew = try put(record, value, replacing: replacing) }
        if isNew { result.done += 1 } else { result.leftOut += 1 }
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
            try put(record.name, value, record.group, database, heals: true) { old, wasDamaged in
                try self.accessibility(atLeast: record.accessibility, replacing: old, wasDamaged: wasDamaged)
            }
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
}
