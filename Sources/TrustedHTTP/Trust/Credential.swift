public import ProtectionKeys

/// What proves who one is. Secrets stay in ``CredentialSecret`` until they enter libcurl, whose memory is wiped.
public struct Credential: Sendable {
    /// What is shown to the server.
    public enum Content: Sendable {
        /// For Basic, Digest and NTLM (there the user may be `DOMAIN\user`).
        case password(user: String, CredentialSecret)
        /// Bearer.
        case token(CredentialSecret)
        /// A client certificate.
        case identity(ClientIdentity)
    }

    /// How long it is kept, once a server has accepted it (URLCredential.Persistence).
    public enum Persistence: String, Hashable, Sendable, CaseIterable {
        /// For this request.
        case none
        /// As long as the process.
        case session
        /// By the ``CredentialStore``.
        case permanent
    }

    /// What is shown to the server.
    public let content: Content
    /// How long it is kept.
    public let persistence: Persistence

    /// A credential; ``Persistence/session`` unless the caller says otherwise.
    public init(_ content: Content, persistence: Persistence = .session) {
        (self.content, self.persistence) = (content, persistence)
    }

    /// Whether it can be used for a challenge of this method; a challenge that leaves it open takes any.
    package func fits(_ method: AuthenticationMethod?) -> Bool {
        switch (content, method) {
        case (_, nil), (.password, .basic), (.password, .digest), (.password, .ntlm), (.token, .bearer),
            (.identity, .clientCertificate):
            true
        default: false
        }
    }
}

/// A password or token: secret bytes that several may hold.
public final class CredentialSecret: Sendable {
    /// UTF-8, without an end.
    public let bytes: SecretBytes

    /// Takes the bytes of a secret.
    public init(_ bytes: consuming SecretBytes) { self.bytes = bytes }
}

/// Where credentials are kept. One of the application, or ``SessionCredentials``.
public protocol CredentialStore: Sendable {
    /// What is to be tried in a space that was met; nil if there is nothing.
    func credential(for space: ProtectionSpace) async throws -> Credential?
    /// The server has accepted it, or a person has given it. Not called with ``Credential/Persistence/none``.
    func keep(_ credential: Credential, for space: ProtectionSpace) async throws
}

/// Credentials of this process, gone with it.
public actor SessionCredentials: CredentialStore {
    private var entries: [(space: ProtectionSpace, credential: Credential)] = []

    /// A store without credentials.
    public init() {}

    /// The latest that was kept for a space that matches.
    public func credential(for space: ProtectionSpace) -> Credential? {
        entries.last { $0.space.matches(space) && $0.credential.fits(space.method) }?.credential
    }

    /// Keeps it, in place of the one for the same space.
    public func keep(_ credential: Credential, for space: ProtectionSpace) {
        entries.removeAll { $0.space == space }
        entries.append((space, credential))
    }
}

/// Where bearer tokens come from.
public protocol BearerTokens: Sendable {
    /// A token for a server, which is sent with the first request already; nil: none for this one.
    ///
    /// - Parameter rejected: whether the server did not accept the one before. Asked so once a request.
    func token(for space: ProtectionSpace, rejected: Bool) async throws -> CredentialSecret?
}
