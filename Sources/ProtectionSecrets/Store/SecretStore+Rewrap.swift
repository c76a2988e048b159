import FoundationEssentials
import GRDB
import ProtectionKeys
import SharedDatabase

/// What a pass over the store after a rotation did.
public struct SecretRewrapResult: Sendable {
    /// How many secrets were under a retired class key, and are under the active one now.
    public internal(set) var rewrapped = 0
    /// Why others are not: they still need the retired class keys, or those of another device.
    public internal(set) var failures: [SecretError] = []
}

extension SecretStore {
    /// Wraps the key of every secret under the active class keys, after a rotation of the keybag. No value is touched.
    ///
    /// Goes on after failures, and may be done again at any time. A secret under a class key that another device made is a failure,
    /// `otherKey` or `keyLost`, and stays as it is. When it returns without failures,
    /// `forgetRetiredKeys(before:secretsAreRewrapped:)` may forget the retired class keys of secrets.
    /// - Throws: what is wrong with the store.
    public func rewrap() throws(SecretError) -> SecretRewrapResult {
        var result = SecretRewrapResult()
        // A writer chooses the class key behind BEGIN IMMEDIATE. One that did so before the rotation, and stood still since, is waited for.
        let ids = try readBehindWriters { database in
            try Row.fetchAll(database, sql: "SELECT id FROM secrets").map { StoredRow($0).bytes(0) }
        }
        for id in ids {
            do throws(SecretError) {
                // Row by row: nobody who unlocks a browser waits for a hundred thousand of them.
                if try rewrap(id) { result.rewrapped += 1 }
            } catch {
                result.failures.append(error)
            }
        }
        return result
    }

    /// How many secrets are under retired class keys, make no sense, or only say that they are under active ones, as far as the keys that are here
    /// can tell. Waits for changes that have begun.
    ///
    /// - Throws: `store`, `storeDamaged`; `protection` if the keybag cannot be read.
    public func needingRewrap() throws(SecretError) -> Int {
        let rows = try readBehindWriters { try Row.fetchAll($0, sql: "SELECT \(SecretSchema.columns) FROM secrets") }
        var count = 0
        for row in rows {
            guard let decoded = SecretRow(row), try activeGeneration(decoded.record) == decoded.generation else {
                count += 1
                continue
            }
            do throws(SecretError) { try refuseOtherKey(of: decoded) } catch { count += 1 }
        }
        return count
    }

    /// - Returns: whether it had to be.
    private func rewrap(_ id: [UInt8]) throws(SecretError) -> Bool {
        defer { SecretBytes.scrubStack() }
        let select = "SELECT \(SecretSchema.columns) FROM secrets WHERE id = ?"
        func row(_ database: Database) throws -> SecretRow? {
            guard let row = try Row.fetchOne(database.cachedStatement(sql: select), arguments: [Data(id)]) else {
                return nil
            }
            guard let decoded = SecretRow(row) else {
                throw SecretError.storeDamaged(path, reason: "a secret holds what none of ours does")
            }
            return decoded
        }
        guard let seen = try read(row) else { return false }
        if try activeGeneration(seen.record) == seen.generation {
            try refuseOtherKey(of: seen)
            return false
        }
        return try write { database in
            guard var row = try row(database) else { return false }
            let generation = try activeGeneration(row.record)
            guard generation != row.generation else { return false }
            let (secret, accessibility) = (row.record.name, row.record.accessibility)
            // Opened first: what was altered is not given a good wrap.
            let item = try itemKey(of: row)
            _ = try open(row, with: item)
            row.wrapped = try withClassKey(generation, secret, accessibility, .rotateKeys) {
                key, device throws(KeyError) in
                try device.wrap(item, key)
            }
            row.generation = generation
            try replace(row, database)
            return true
        }
    }

    /// A number names no key by itself: another device that rotates its copy of the keybag gives the active one's to a key of its own.
    ///
    /// - Throws: `otherKey`, `otherDevice`, and nothing else: a secret that is locked now is not in the way of a rotation.
    private func refuseOtherKey(of row: SecretRow) throws(SecretError) {
        do throws(SecretError) { _ = try itemKey(of: row) } catch {
            switch error {
            case .otherKey, .otherDevice: throw error
            default: return
            }
        }
    }
}
