import DataProtection
import FoundationEssentials
import GRDB
import ProtectionKeys
import ProtectionSecrets
import SharedDatabase
import TrustedHTTP

/// A row of `credentials`, its secret still sealed.
struct CredentialRecord: Sendable {
    /// What is known of it without its secret, as JSON.
    struct Entry: Codable {
        let space: StoredSpace
        let kind: DownloadCredential.Kind
        let name: String?
    }

    /// Where it is.
    enum Place: Hashable {
        /// In the list, sealed for the ids of the download and of the row.
        case row([UInt8], secret: [UInt8]?, identity: [UInt8]?)
        /// Among the user's secrets.
        case secret(SecretName)
    }

    let place: Place
    /// The download that it was given with; nil: for all.
    let download: DownloadID?
    let listed: ListedCredential
}

/// Credentials, sealed: what they are, and what they are for too.
extension DownloadStore {
    /// Those of a download, and behind them those for all; each in the order in which they were added.
    ///
    /// A row without a download is not read. Versions before the store of secrets made such rows for all downloads, but anybody who can
    /// write to the list could make one of a credential that only one download may use.
    func credentials(of id: DownloadID? = nil) throws(DownloadError) -> [CredentialRecord] {
        guard let id else { return try keptForAll() }
        return try rows(of: id) + keptForAll()
    }

    private func rows(of id: DownloadID) throws(DownloadError) -> [CredentialRecord] {
        let rows = try read { database in
            let statement = try database.cachedStatement(
                sql: "SELECT id, entry, secret, identity FROM credentials WHERE download = ? ORDER BY position")
            return try Row.fetchAll(statement, arguments: [Data(id.bytes)])
        }
        var records: [CredentialRecord] = []
        for row in rows { records.append(try record(row, of: id)) }
        return records
    }

    private func record(_ row: Row, of download: DownloadID) throws(DownloadError) -> CredentialRecord {
        let values = StoredRow(row)
        let (id, sealed) = (download.bytes + values.bytes(0), values.bytes(1))
        let (secret, identity) = (values.data(2).map { Array($0) }, values.data(3).map { Array($0) })
        guard !values.isDamaged else { throw .storeDamaged(path, reason: "a credential has values of other types") }
        let json: [UInt8]
        do throws(DownloadError) { json = try open(sealed, .credentialEntry, row: id) } catch .storeDamaged {
            let words = "a credential was altered, belongs to another download, or was kept by an earlier version"
            throw .storeDamaged(path, reason: "\(words): give the download its credentials again")
        }
        guard let entry = try? JSONDecoder().decode(CredentialRecord.Entry.self, from: Data(json)),
            let space = try? entry.space.space()
        else { throw .storeDamaged(path, reason: "a credential makes no sense") }
        return CredentialRecord(
            place: .row(id, secret: secret, identity: identity), download: download,
            listed: ListedCredential(space: space, kind: entry.kind, name: entry.name))
    }

    /// Opens the secret.
    func open(_ record: CredentialRecord) throws(DownloadError) -> Credential {
        try DownloadCredential(try content(of: record), for: record.listed.space).credential()
    }

    /// The same; nil for one that was damaged or altered, and `broken` says what was wrong with the first.
    func openIfSound(
        _ record: CredentialRecord, _ broken: inout DownloadError?
    ) throws(DownloadError) -> Credential? {
        do throws(DownloadError) { return try open(record) } catch {
            guard case .storeDamaged = error else { throw error }
            broken = broken ?? error
            return nil
        }
    }

    private func content(of record: CredentialRecord) throws(DownloadError) -> DownloadCredential.Content {
        switch record.place {
        case .secret(let name): return try open(name)
        case .row(let row, let sealedSecret, let sealedIdentity):
            var secret: CredentialSecret?
            if let sealed = sealedSecret {
                secret = CredentialSecret(try openSecret(sealed, .credentialSecret, row: row))
            }
            switch (record.listed.kind, secret, sealedIdentity) {
            case (.password, .some(let secret), nil): return .password(user: record.listed.name ?? "", secret)
            case (.token, .some(let secret), nil): return .token(secret)
            case (.identity, let passphrase, .some(let sealed)):
                return .identity(pkcs12: try open(sealed, .credentialIdentity, row: row), passphrase: passphrase)
            default: throw .storeDamaged(path, reason: "a credential makes no sense")
            }
        }
    }

    // MARK: changes

    /// What a row gets: sealed before the transaction begins.
    struct SealedCredential {
        fileprivate let id: [UInt8]
        fileprivate let download: DownloadID
        fileprivate let entry: [UInt8]
        fileprivate let secret, identity: [UInt8]?
    }

    /// Seals a credential for one download: its row is of no use to another one, which may believe another server.
    func seal(_ credential: DownloadCredential, for download: DownloadID) throws(DownloadError) -> SealedCredential {
        let id = try withKeys { () throws(KeyError) in try Randomness.bytes(16) }
        let row = download.bytes + id
        let entry = CredentialRecord.Entry(
            space: StoredSpace(credential.space), kind: credential.kind, name: credential.name)
        guard let json = try? JSONEncoder().encode(entry) else {
            throw .invalidRequest(reason: "the credential cannot be written down")
        }
        var (secret, identity): (CredentialSecret?, [UInt8]?) = (nil, nil)
        switch credential.content {
        case .password(_, let password): secret = password
        case .token(let token): secret = token
        case .identity(let bytes, let passphrase): (secret, identity) = (passphrase, bytes)
        }
        var (sealedSecret, sealedIdentity): ([UInt8]?, [UInt8]?) = (nil, nil)
        if let secret { sealedSecret = try seal(secret.bytes, .credentialSecret, row: row) }
        if let identity { sealedIdentity = try seal(identity, .credentialIdentity, row: row) }
        return SealedCredential(
            id: id, download: download, entry: try seal(Array(json), .credentialEntry, row: row),
            secret: sealedSecret, identity: sealedIdentity)
    }

    static func insert(_ credential: SealedCredential, _ database: Database) throws {
        let position = try lastPosition(in: "credentials", database) + 1
        try database.execute(
            sql: """
                INSERT INTO credentials (id, position, download, entry, secret, identity) VALUES (?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                Data(credential.id), position, Data(credential.download.bytes), Data(credential.entry),
                credential.secret.map { Data($0) }, credential.identity.map { Data($0) },
            ])
    }

    /// Keeps one for all downloads, in place of one of the same kind for the same space; if it was refused before, it may be
    /// tried again.
    func add(_ credential: DownloadCredential) throws(DownloadError) {
        let place = ProtectionSpace(credential.space.kind, host: credential.space.host, port: credential.space.port)
        let opened = try credential.credential()
        let loaded = try loadedKey()
        let mark = try withKeys { () throws(KeyError) in try loaded.key.mark(of: opened.fingerprint(in: place)) }
        try keep(credential)
        try write { database in
            try database.execute(
                sql: "DELETE FROM failedCredentials WHERE credential = ?", arguments: [Data(mark)])
        }
    }

    /// Gives a download these, in place of those that it was given.
    ///
    /// - Throws: `unknownDownload`.
    func set(_ credentials: [DownloadCredential], of id: DownloadID) throws(DownloadError) {
        _ = try record(id)
        var sealed: [SealedCredential] = []
        for credential in credentials { sealed.append(try seal(credential, for: id)) }
        try write { database in
            try Self.forgetCredentials(of: id, database)
            for credential in sealed { try Self.insert(credential, database) }
        }
    }

    func remove(_ records: [CredentialRecord]) throws(DownloadError) {
        for record in records { try forget(record) }
    }

    /// A download that is over needs none.
    static func forgetCredentials(of id: DownloadID, _ database: Database) throws {
        try database.cachedStatement(sql: "DELETE FROM credentials WHERE download = ?").execute(
            arguments: [Data(id.bytes)])
    }
}
