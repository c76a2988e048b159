import ProtectionKeys
import ProtectionSecrets
import TrustedHTTP

/// Credentials for all downloads: in the user's store of secrets, where they outlive the list. FORMAT.md §2.14.
extension DownloadStore {
    /// Whose private group they are in: `protectfs secret find --app protectfs.downloads`.
    static let appID = "protectfs.downloads"

    private var hasSecrets: Bool {
        get throws(DownloadError) {
            do throws(DataProtectionError) { return try keybag.hasSecrets } catch { throw .protection(error) }
        }
    }

    /// Those that are kept and make sense, in the order in which they were added.
    func keptForAll() throws(DownloadError) -> [CredentialRecord] {
        guard try hasSecrets else { return [] }
        let store = try secrets()
        let found = try secret { () throws(SecretError) in try store.find() }
        var records: [CredentialRecord] = []
        for record in found.records.sorted(by: { $0.created < $1.created }) {
            guard let (space, kind, name) = Self.credential(record.name) else { continue }
            // One that does not open harms no other one: who needs it is told.
            let shown = kind == .identity ? (try? identity(record.name, store))?.name : name
            records.append(
                CredentialRecord(
                    place: .secret(record.name), download: nil,
                    listed: ListedCredential(space: space, kind: kind, name: shown)))
        }
        return records
    }

    /// How many of them make no sense.
    func damagedForAll() throws(DownloadError) -> Int {
        guard try hasSecrets else { return 0 }
        let store = try secrets()
        return try secret { () throws(SecretError) in try store.find().damaged }
    }

    /// Keeps one, in place of one of the same kind for the same space.
    func keep(_ credential: DownloadCredential) throws(DownloadError) {
        let name = try Self.secretName(credential)
        let store = try secrets()
        switch credential.content {
        case .password(_, let value), .token(let value):
            _ = try secret { () throws(SecretError) in
                try store.set(name, value: value.bytes, accessibility: .afterFirstUnlock)
            }
        case .identity(let bytes, let passphrase):
            let der = try Self.der(bytes)
            _ = try secret { () throws(SecretError) in
                try store.set(
                    name, value: try Self.identity(der: der, passphrase).joined(), accessibility: .afterFirstUnlock)
            }
        }
        // Behind it: killed in between there are two, and the next one that is kept leaves one.
        for record in try keptForAll() where record.place != .secret(name) {
            if record.listed.space == credential.space, record.listed.kind == credential.kind { try forget(record) }
        }
    }

    private static func der(_ bytes: [UInt8]) throws(DownloadError) -> [UInt8] {
        do throws(ClientIdentityError) { return try ClientIdentity.der(bytes) } catch {
            throw .unusableIdentity(error)
        }
    }

    private static func identity(
        der: [UInt8], _ passphrase: CredentialSecret?
    ) throws(SecretError) -> SecretIdentity {
        try SecretIdentity(
            pkcs12: SecretBytes(byteCount: der.count) { $0.copyBytes(from: der) },
            passphrase: passphrase.map { $0.bytes.withUnsafeBytes { SecretBytes(copyOf: $0) } }
                ?? SecretBytes(zeroed: 0))
    }

    /// Removes one; that it has gone already is no error.
    func forget(_ record: CredentialRecord) throws(DownloadError) {
        guard case .secret(let name) = record.place else { return }
        let store = try secrets()
        try secret { () throws(SecretError) in
            do throws(SecretError) { try store.delete(name) } catch .notFound {}
        }
    }

    /// Opens one.
    func open(_ name: SecretName) throws(DownloadError) -> DownloadCredential.Content {
        let store = try secrets()
        guard let (_, kind, user) = Self.credential(name) else {
            throw .storeDamaged(store.path, reason: "a credential makes no sense")
        }
        if kind == .identity { return try identity(name, store).content }
        let value = CredentialSecret(try secret { () throws(SecretError) in try store.value(of: name) })
        return kind == .token ? .token(value) : .password(user: user ?? "", value)
    }

    private func identity(
        _ name: SecretName, _ store: SecretStore
    ) throws(DownloadError) -> (content: DownloadCredential.Content, name: String?) {
        guard case .identity(let text) = name, let (space, _, _) = Self.credential(name) else {
            throw .storeDamaged(store.path, reason: "a credential makes no sense")
        }
        let identity = try secret { () throws(SecretError) in try store.identity(text) }
        // Whom a certificate names, and the certificate, are not secret; its key is under the passphrase.
        let bytes = identity.pkcs12.withUnsafeBytes { Array($0) }
        let passphrase = identity.passphrase.withUnsafeBytes { SecretBytes(copyOf: $0) }
        let content = DownloadCredential.Content.identity(
            pkcs12: bytes, passphrase: passphrase.count == 0 ? nil : CredentialSecret(passphrase))
        return (content, try DownloadCredential(content, for: space).name)
    }

    // MARK: names

    /// `https`, or `https+digest` where one method alone is meant; an identity is called `https+clientCertificate://HOST:PORT`.
    private static func secretName(_ credential: DownloadCredential) throws(DownloadError) -> SecretName {
        let space = credential.space
        guard space.realm != "" else { throw .invalidRequest(reason: "an empty realm cannot be kept") }
        let scheme = space.kind.rawValue + (space.method.map { "+\($0.rawValue)" } ?? "")
        if credential.kind == .identity { return .identity(name: "\(scheme)://\(space.host):\(space.port)") }
        let server = SecretServer(scheme, host: space.host, port: space.port, realm: space.realm ?? "")
        return .internetPassword(server, account: credential.kind == .password ? credential.name ?? "" : "")
    }

    /// What a name says; nil for a secret that somebody else has put into this group.
    private static func credential(
        _ name: SecretName
    ) -> (space: ProtectionSpace, kind: DownloadCredential.Kind, user: String?)? {
        switch name {
        case .internetPassword(let server, let account):
            guard let (kind, method) = way(server.protocol), method != .clientCertificate else { return nil }
            let space = ProtectionSpace(
                kind, host: server.host, port: server.port, realm: server.realm.isEmpty ? nil : server.realm,
                method: method)
            return method == .bearer ? (space, .token, nil) : (space, .password, account)
        case .identity(let text):
            guard let scheme = text.range(of: "://"), let colon = text.lastIndex(of: ":"),
                scheme.upperBound < colon, let port = Int(text[text.index(after: colon)...]),
                let (kind, method) = way(String(text[..<scheme.lowerBound])), method == .clientCertificate
            else { return nil }
            let host = String(text[scheme.upperBound..<colon])
            return (ProtectionSpace(kind, host: host, port: port, method: method), .identity, nil)
        case .genericPassword: return nil
        }
    }

    private static func way(_ scheme: String) -> (ProtectionSpace.Kind, AuthenticationMethod?)? {
        let words = scheme.split(separator: "+", omittingEmptySubsequences: false).map { $0.lowercased() }
        guard let kind = ProtectionSpace.Kind(rawValue: words[0]), words.count <= 2 else { return nil }
        guard words.count == 2 else { return (kind, nil) }
        guard let method = AuthenticationMethod.allCases.first(where: { $0.rawValue.lowercased() == words[1] }) else {
            return nil
        }
        return (kind, method)
    }

    // MARK: errors

    private func secrets() throws(DownloadError) -> SecretStore {
        if let store = kept.withLock({ $0 }) { return store }
        let store = try secret { () throws(SecretError) in try SecretStore(appID: Self.appID, keybag: keybag) }
        kept.withLock { $0 = store }
        return store
    }

    private func secret<R: ~Copyable>(_ body: () throws(SecretError) -> R) throws(DownloadError) -> R {
        do throws(SecretError) { return try body() } catch {
            switch error {
            case .locked, .needsUnlock: throw .beforeFirstUnlock(keybag.directory)
            case .damaged(_, let path, let reason), .storeDamaged(let path, let reason):
                throw .storeDamaged(path, reason: reason)
            case .storeNewer(let path): throw .storeNewer(path)
            case .store(let path, let code, let reason): throw .store(path, code: code, reason: reason)
            case .protection(let error): throw .protection(error)
            case .cryptography(let error): throw .cryptography(error)
            case .invalid(let reason): throw .invalidRequest(reason: reason)
            case .otherKey:
                throw .storeDamaged(
                    keybag.directory.appending(SecretsKeys.directoryName),
                    reason: "a credential is under another device's class key, or was altered")
            case .keyLost, .otherDevice, .notFound, .exists:
                throw .storeDamaged(
                    keybag.directory.appending(SecretsKeys.directoryName), reason: "a credential is lost")
            case .valueTooLong(let bytes):
                throw .invalidRequest(
                    reason: "a credential of \(bytes) bytes: \(SecretStore.maximumValueLength) can be kept")
            }
        }
    }
}
