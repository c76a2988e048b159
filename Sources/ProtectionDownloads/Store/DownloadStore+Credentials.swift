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
        /// In the list, sealed.
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
    /// Those for all, in the order in which they were added; behind those of a download.
    func credentials(of id: DownloadID? = nil) throws(DownloadError) -> [CredentialRecord] {
        let own = try rows(of: id)
        let forAll = own.filter { $0.download == nil }
        if !forAll.isEmpty { try move(forAll) }
        return own.filter { $0.download != nil } + (try keptForAll())
    }

    /// Earlier versions kept those for all in the list too.
    private func move(_ records: [CredentialRecord]) throws(DownloadError) {
        for record in records { try keep(DownloadCredential(try content(of: record), for: record.listed.space)) }
        try write { database in for record in records { try Self.remove(record, database) } }
    }

    private func rows(of id: DownloadID?) throws(DownloadError) -> [CredentialRecord] {
        let rows = try read { database in
            let statement = try database.cachedStatement(
                sql: """
                    SELECT id, download, entry, secret, identity FROM credentials
                    WHERE download IS NULL OR download = ? ORDER BY download IS NULL, position
                    """)
            return try Row.fetchAll(statement, arguments: [id.map { Data($0.bytes) }])
        }
        var records: [CredentialRecord] = []
        for row in rows { records.append(try record(row)) }
        return records
    }

    private func record(_ row: Row) throws(DownloadError) -> CredentialRecord {
        let values = StoredRow(row)
        let (id, sealed) = (values.bytes(0), values.bytes(2))
        let (secret, identity) = (values.data(3).map { Array($0) }, values.data(4).map { Array($0) })
        guard !values.isDamaged else { throw .storeDamaged(path, reason: "a credential has values of other types") }
        let json = try open(sealed, .credentialEntry, row: id)
        guard let entry = try? JSONDecoder().decode(CredentialRecord.Entry.self, from: Data(json)),
            let space = try? entry.space.space()
        else { throw .storeDamaged(path, reason: "a credential makes no sense") }
        return CredentialRecord(
            place: .row(id, secret: secret, identity: identity),
            download: values.data(1).map { DownloadID(stored: Array($0)) },
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
        fileprivate let row: [UInt8]
        fileprivate let entry: [UInt8]
        fileprivate let secret, identity: [UInt8]?
    }

    func seal(_ credential: DownloadCredential) throws(DownloadError) -> SealedCredential {
        let row = try withKeys { () throws(KeyError) in try Randomness.bytes(16) }
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
            row: row, entry: try seal(Array(json), .credentialEntry, row: row), secret: sealedSecret,
            identity: sealedIdentity)
    }

    static func insert(_ credential: SealedCredential, for id: DownloadID, _ database: Database) throws {
        let position = try lastPosition(in: "credentials", database) + 1
        try database.execute(
            sql: """
                INSERT INTO credentials (id, position, download, entry, secret, identity) VALUES (?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                Data(credential.row), position, Data(id.bytes), Data(credential.entry),
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
        for credential in credentials { sealed.append(try seal(credential)) }
        try write { database in
            try Self.forgetCredentials(of: id, database)
            for credential in sealed { try Self.insert(credential, for: id, database) }
        }
    }

    func remove(_ records: [CredentialRecord]) throws(DownloadError) {
        for record in records { try forget(record) }
    }

    private static func remove(_ record: CredentialRecord, _ database: Database) throws {
        guard case .row(let row, _, _) = record.place else { return }
        try database.execute(sql: "DELETE FROM credentials WHERE id = ?", arguments: [Data(row)])
    }

    /// A download that is over needs none.
    static func forgetCredentials(of id: DownloadID, _ database: Database) throws {
        try database.cachedStatement(sql: "DELETE FROM credentials WHERE download = ?").execute(
            arguments: [Data(id.bytes)])
    }
}
