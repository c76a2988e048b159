import DataProtection
import FoundationEssentials
import GRDB
import ProtectionKeys
import SharedDatabase

/// The keys for HMACs, by the ids that both parties use. Sealed, the ids too.
extension DownloadStore {
    private struct Found {
        let row: [UInt8]
        let id: String
        let isRetired: Bool
        let sealedKey: [UInt8]
    }

    /// Those that checks need.
    ///
    /// - Throws: `unknownIntegrityKey`, `retiredIntegrityKey`.
    func integrityKeys(for checks: [IntegrityCheck]) throws(DownloadError) -> [String: IntegrityKey] {
        var keys: [String: IntegrityKey] = [:]
        for case .hmacSHA256(let id, _) in checks { keys[id] = try integrityKey(id) }
        return keys
    }

    /// - Throws: `unknownIntegrityKey`, `retiredIntegrityKey`.
    func integrityKey(_ id: String) throws(DownloadError) -> IntegrityKey {
        guard let found = try allIntegrityKeys().first(where: { $0.id == id }) else {
            throw .unknownIntegrityKey(id: id)
        }
        guard !found.isRetired else { throw .retiredIntegrityKey(id: id) }
        return try IntegrityKey(id: id, try openSecret(found.sealedKey, .integrityKey, row: found.row))
    }

    /// Keeps a key.
    ///
    /// - Throws: `integrityKeyExists`, also for one that was retired: a name never stands for two keys.
    func add(_ key: IntegrityKey) throws(DownloadError) {
        guard try !allIntegrityKeys().contains(where: { $0.id == key.id }) else {
            throw .integrityKeyExists(id: key.id)
        }
        let row = try withKeys { () throws(KeyError) in try Randomness.bytes(16) }
        let name = try seal(Array(key.id.utf8), .integrityKeyName, row: row)
        let sealed = try seal(key.secret, .integrityKey, row: row)
        try write { database in
            try database.execute(
                sql: "INSERT INTO integrityKeys (id, isRetired, name, key) VALUES (?, 0, ?, ?)",
                arguments: [Data(row), Data(name), Data(sealed)])
        }
    }

    /// Accepts a key no more, and destroys it; its id stays known.
    ///
    /// - Throws: `unknownIntegrityKey`.
    func retireIntegrityKey(_ id: String) throws(DownloadError) {
        guard let found = try allIntegrityKeys().first(where: { $0.id == id }) else {
            throw .unknownIntegrityKey(id: id)
        }
        try write { database in
            try database.execute(
                sql: "UPDATE integrityKeys SET isRetired = 1, key = x'' WHERE id = ?", arguments: [Data(found.row)])
        }
    }

    /// Their ids, and whether they are accepted.
    func integrityKeyIDs() throws(DownloadError) -> [(id: String, isRetired: Bool)] {
        try allIntegrityKeys().map { ($0.id, $0.isRetired) }.sorted { $0.id < $1.id }
    }

    private func allIntegrityKeys() throws(DownloadError) -> [Found] {
        let rows = try read { try Row.fetchAll($0, sql: "SELECT id, isRetired, name, key FROM integrityKeys") }
        var all: [Found] = []
        for row in rows {
            let values = StoredRow(row)
            let (id, isRetired) = (values.bytes(0), values.number(1) != 0)
            let (sealedName, key) = (values.bytes(2), values.bytes(3))
            guard !values.isDamaged else { throw .storeDamaged(path, reason: "a key has values of other types") }
            let name = try open(sealedName, .integrityKeyName, row: id)
            all.append(
                Found(row: id, id: String(decoding: name, as: UTF8.self), isRetired: isRetired, sealedKey: key))
        }
        return all
    }
}
