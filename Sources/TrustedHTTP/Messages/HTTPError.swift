/// Why there is no response.
///
/// What is only about this attempt, and may go well at another time, says so by ``isTransient``.
@nonexhaustive
public enum HTTPError: Error {
    /// The receiver or the body threw this.
    case refused(by: any Error)
    /// The task was cancelled.
    case cancelled

    // MARK: the request itself; nothing was sent

    /// The URL cannot be requested; why.
    case unsupportedURL(String)
    /// User or password in the URL: they end up in logs and lists of processes.
    case credentialsInURL
    /// `http://` without ``HTTPRequest/allowsPlainHTTP``.
    case plainHTTPNotAllowed(host: String)
    /// A credential for a server without TLS: a header of the caller, or an answer to its challenge.
    case credentialsOverPlainHTTP(host: String)
    /// The method cannot be used, or the body is shorter than it said; why.
    case malformedRequest(String)
    /// Not a name, or a value with CR, LF, NUL or another control character (RFC 9110 §5.5).
    case malformedHeader(name: String)
    /// The connection's own business.
    case managedHeader(name: String)
    /// The proxy cannot be used; why.
    case unsupportedProxy(String)

    // MARK: the way to the server

    /// The name has no address.
    case hostNotFound(String)
    /// No address of the host answered on that port.
    case cannotConnect(host: String, port: Int)
    /// The connection was not there in time.
    case connectTimeout(host: String, port: Int, after: Duration)
    /// For too long fewer bytes came, or went, than the request's limit.
    case stalled(HTTPRequest.StallLimit)
    /// Reset, or ended, at another place than between two responses.
    case connectionLost
    /// The body is shorter than the server said. In bytes.
    case truncated(received: UInt64, expected: UInt64?)
    /// With the status of its answer to CONNECT, if there was one.
    case proxyRefused(HTTPProxy, status: Int?)

    // MARK: the server

    /// Nothing but the TLS handshake has left. ``TrustVerdict`` says why.
    case serverNotTrusted(TrustVerdict, PresentedChain)
    /// No TLS connection came about, and it is not for the certificate: no version or cipher in common, for one.
    case tlsFailed(host: String, port: Int)
    /// The server asked for a client certificate, there was none, and it ended the connection.
    case clientCertificateRequired(host: String, port: Int)
    /// The server ended the connection after it was shown the client certificate.
    case clientCertificateRefused(host: String, port: Int)
    /// What the server sent is not HTTP; why.
    case malformedResponse(String)
    /// In bytes; `announced` by the server, or it sent more than the limit.
    case responseTooLarge(limit: UInt64, announced: UInt64?)
    /// Of a successful response: none of ``HTTPRequest/acceptedTypes``. A form to log in, perhaps.
    case unexpectedType(seen: String?, wanted: [String])
    /// More redirects than the request allows.
    case tooManyRedirects(limit: Int)
    /// A redirect leads from `https` to `http`. Both are URLs.
    case redirectToPlainHTTP(from: String, to: String)
    /// A redirect asks for the request's body at another origin.
    case redirectOfBody(from: String, to: String)
    /// A redirect without a `Location` that is a URL.
    case malformedRedirect

    // MARK: authentication

    /// The server asks for credentials of a space that is not listed. Nothing was sent.
    case spaceNotListed(met: ProtectionSpace, nearest: ProtectionSpace?)
    /// The server offers only methods that this library cannot do, by their names. Nothing was sent.
    case authenticationUnsupported(methods: [String], host: String)
    /// The server did not accept the credential, or has not accepted it before: it is not sent again until it is replaced.
    case credentialRefused(ProtectionSpace)
    /// The handler said ``AuthenticationDisposition/cancel``.
    case authenticationCancelled(ProtectionSpace)
    /// The handler rejected every space that the server offers.
    case spaceRejected(ProtectionSpace)
    /// While a credential for `chosen` was on its way, the server asked for `met`. Nothing of it was sent.
    case spaceChanged(chosen: ProtectionSpace, met: ProtectionSpace?)
    /// A user or a secret that HTTP cannot carry: with a zero byte, or a colon in the user of Basic (RFC 7617 §2).
    case malformedCredential(ProtectionSpace)
    /// A store or the provider of tokens failed with this.
    case credentialsUnavailable(ProtectionSpace, any Error)

    // MARK: this machine

    /// libcurl failed otherwise; its own words.
    case transport(String)
}

extension HTTPError {
    /// Whether the same request may go well later, with nothing changed.
    public var isTransient: Bool {
        switch self {
        case .hostNotFound, .cannotConnect, .connectTimeout, .stalled, .connectionLost, .truncated, .transport: true
        case .proxyRefused(_, let status): status.map { $0 >= 500 } ?? true
        case .tlsFailed: true  // a server that is being restarted ends handshakes, too
        default: false
        }
    }
}
