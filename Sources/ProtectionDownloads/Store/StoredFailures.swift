import FoundationEssentials
import GRDB
import ProtectionKeys
import TrustedHTTP

/// Credentials that were refused, by marks under the key of the list: not sent again by any process, until they are replaced.
struct StoredFailures: FailedCredentials {
    let store: DownloadStore

    func mark(_ bytes: borrowing SecretBytes) throws -> [UInt8] {
        let loaded = try store.loadedKey()
        return try loaded.key.mark(of: bytes)
    }

    func contains(_ mark: [UInt8]) async throws -> Bool {
        try store.read { database in
            try Int.fetchOne(
                database, sql: "SELECT count(*) FROM failedCredentials WHERE mark = ?", arguments: [Data(mark)]) != 0
        }
    }

    func insert(_ mark: [UInt8], of credential: [UInt8]) async throws {
        try store.write { database in
            try database.execute(
                sql: "INSERT OR IGNORE INTO failedCredentials (mark, credential) VALUES (?, ?)",
                arguments: [Data(mark), Data(credential)])
        }
    }
}
