public import FoundationEssentials

/// What a server shows to a client that connects, before any request.
public struct ProbeResult: Sendable {
    /// The certificates that the server showed.
    public let chain: PresentedChain
    /// What would come of a request under the trust that was given.
    public let verdict: TrustVerdict
    /// Of TLS, as "TLSv1.3"; nil if the handshake did not go through.
    public let version: String?
    /// Whether the server has asked for a client certificate.
    public let asksForIdentity: Bool
}

extension HTTPClient {
    /// Makes a TLS connection and looks at what the server shows. No byte of HTTP is sent, even if the server is trusted.
    ///
    /// - Throws: ``HTTPError`` if nothing was shown: no such host, nobody there, no TLS.
    public func probe(
        _ url: URL, trust: ServerTrust = ServerTrust(), proxy: HTTPProxy? = nil, timeout: Duration = .seconds(30)
    ) async throws(HTTPError) -> ProbeResult {
        var request = HTTPRequest(url)
        (request.trust, request.proxy, request.connectTimeout) = (trust, proxy, timeout)
        let origin = try RequestCheck.origin(of: request)
        guard origin.isSecure else { throw .plainHTTPNotAllowed(host: origin.host) }
        let (error, handshake) = await handshake(request, to: origin)
        guard let chain = handshake.chain, let verdict = handshake.verdict else {
            throw error ?? .tlsFailed(host: origin.host, port: origin.port)
        }
        return ProbeResult(
            chain: chain, verdict: verdict, version: handshake.version, asksForIdentity: handshake.askedForIdentity)
    }
}
