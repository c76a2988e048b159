/// Which servers may learn our identity, and where the credentials come from.
///
/// A challenge of a space that is not listed is refused: ``HTTPError/spaceNotListed(met:nearest:)``. Of several challenges the
/// strongest is answered: Digest with SHA-256, with MD5, NTLM, Basic. Basic is not for proxies, which are spoken to in clear,
/// unless their entry names it.
public struct HTTPAuthentication: Sendable {
    /// Several entries allow several servers, a stand-by one for instance.
    public var spaces: [ProtectionSpace]
    /// Where credentials are looked for, and kept.
    public var credentials: (any CredentialStore)?
    /// Asked before anything is sent; without one ``AuthenticationDisposition/performDefault`` is done.
    public var handler: (any AuthenticationHandler)?
    /// Where tokens for `Bearer` come from.
    public var tokens: (any BearerTokens)?
    /// One that lasts as long as the ``HTTPClient`` unless it is given.
    public var failures: (any FailedCredentials)?

    /// Answers challenges of these spaces, and of no others.
    public init(
        _ spaces: [ProtectionSpace], credentials: (any CredentialStore)? = nil,
        handler: (any AuthenticationHandler)? = nil, tokens: (any BearerTokens)? = nil,
        failures: (any FailedCredentials)? = nil
    ) {
        (self.spaces, self.credentials, self.handler) = (spaces, credentials, handler)
        (self.tokens, self.failures) = (tokens, failures)
    }
}

/// Answers challenges in place of the store, or decides what becomes of what the store proposes.
public protocol AuthenticationHandler: Sendable {
    /// What is done about `challenge`.
    func disposition(of challenge: AuthenticationChallenge) async -> AuthenticationDisposition
}

/// What a server wants to know (URLAuthenticationChallenge).
public struct AuthenticationChallenge: Sendable {
    /// The server, the realm and the method that ask.
    public let space: ProtectionSpace
    /// How often a credential for this space was refused, in this request.
    public let previousFailureCount: Int
    /// What the store has, unless it was refused before.
    public let proposedCredential: Credential?
    /// What the server has shown, and what was said of it; nil of a proxy.
    public let server: ServerIdentity?
}

/// What a server has shown in the TLS handshake, and the verdict on it.
public struct ServerIdentity: Hashable, Sendable {
    /// The certificates, with the name and port that was asked for.
    public let chain: PresentedChain
    /// Whether the chain is trusted, and why not.
    public let verdict: TrustVerdict
}

/// What is done about a challenge (URLSession.AuthChallengeDisposition).
public enum AuthenticationDisposition: Sendable {
    /// This credential is sent, and the store is not asked.
    case use(Credential)
    /// The transfer ends: ``HTTPError/authenticationCancelled(_:)``.
    case cancel
    /// The refusal is the response.
    case continueWithout
    /// The proposed credential is used; without one the refusal is the response.
    case performDefault
    /// The next challenge of the same response is looked at; after the last: ``HTTPError/spaceRejected(_:)``.
    case rejectSpace
}
