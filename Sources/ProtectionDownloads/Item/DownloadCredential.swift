public import TrustedHTTP

/// A credential that outlives this process: sealed in the list with its request, or a secret of the user's, for everything that is asked of a server.
public struct DownloadCredential: Sendable {
    /// What is shown to a server.
    public enum Content: Sendable {
        /// For Basic, Digest and NTLM.
        case password(user: String, CredentialSecret)
        /// Bearer: sent with the first request already.
        case token(CredentialSecret)
        /// A client's certificate and key: PKCS #12, DER or base 64, and its passphrase. It is kept as it is, and opened each time
        /// that it is used: keys never leave libcrypto.
        case identity(pkcs12: [UInt8], passphrase: CredentialSecret?)
    }

    /// Which server may have it. Realm and method may be left open.
    public let space: ProtectionSpace
    /// What is shown to the server.
    public let content: Content
    /// The user, or the subject of the certificate.
    public let name: String?

    /// - Throws: `invalidRequest` if it is for a server without TLS, or of another kind than the method of its space;
    ///   `unusableIdentity`.
    public init(_ content: Content, for space: ProtectionSpace) throws(DownloadError) {
        guard space.kind != .http else {
            throw .invalidRequest(reason: "no credentials over http://: everybody on the way could read them")
        }
        let methods: [AuthenticationMethod]
        switch content {
        case .password(let user, _): (methods, name) = ([.basic, .digest, .ntlm], user)
        case .token: (methods, name) = ([.bearer], nil)
        case .identity(let bytes, let passphrase):
            (methods, name) = ([.clientCertificate], try Self.identity(bytes, passphrase).certificate.subject)
        }
        if let method = space.method, !methods.contains(method) {
            throw .invalidRequest(reason: "this is no credential for \(method.rawValue)")
        }
        // Tokens and certificates are shown before there is a realm.
        let realm = methods.count == 1 ? nil : space.realm
        self.content = content
        self.space = ProtectionSpace(
            space.kind, host: space.host, port: space.port, realm: realm,
            method: methods.count == 1 ? methods[0] : space.method)
    }

    /// - Throws: `unusableIdentity`.
    func credential() throws(DownloadError) -> Credential {
        switch content {
        case .password(let user, let password): Credential(.password(user: user, password), persistence: .permanent)
        case .token(let token): Credential(.token(token), persistence: .permanent)
        case .identity(let bytes, let passphrase):
            Credential(.identity(try Self.identity(bytes, passphrase)), persistence: .permanent)
        }
    }

    private static func identity(
        _ bytes: [UInt8], _ passphrase: CredentialSecret?
    ) throws(DownloadError) -> ClientIdentity {
        do throws(ClientIdentityError) {
            return try ClientIdentity(pkcs12: bytes, secret: passphrase)
        } catch {
            throw .unusableIdentity(error)
        }
    }

    /// What it is, without what is secret.
    public enum Kind: String, Hashable, Sendable, Codable {
        /// A user and a password.
        case password
        /// A bearer token.
        case token
        /// A client certificate with its key.
        case identity
    }

    /// What it is, without the secret.
    public var kind: Kind {
        switch content {
        case .password: .password
        case .token: .token
        case .identity: .identity
        }
    }
}

/// A credential of the list, as it can be shown.
public struct ListedCredential: Hashable, Sendable {
    /// Where it is shown.
    public let space: ProtectionSpace
    /// What it is, without the secret.
    public let kind: DownloadCredential.Kind
    /// The user, or the subject of the certificate.
    public let name: String?
}
