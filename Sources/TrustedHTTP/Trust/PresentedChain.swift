/// What a server has presented in the TLS handshake, and as which server it was asked for.
public struct PresentedChain: Hashable, Sendable {
    /// The server's own first, then the others in the order in which they came (RFC 8446 §4.4.2).
    public let certificates: [Certificate]
    /// As in the URL, without brackets: a name in A-labels, or an address.
    public let host: String
    /// The port that was connected to.
    public let port: Int

    /// A chain as a server shows it, its own certificate first.
    public init(certificates: [Certificate], host: String, port: Int) {
        (self.certificates, self.host, self.port) = (certificates, host, port)
    }
}
