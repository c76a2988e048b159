/// A proxy that a request goes through. What is sent to an `https` server passes it sealed.
public struct HTTPProxy: Hashable, Sendable {
    /// How one talks to it.
    public enum Kind: String, Sendable {
        /// A tunnel by CONNECT (RFC 9110 §9.3.6) for `https`; a plain `http` request is handed to it whole.
        case http
        /// SOCKS 5 (RFC 1928), with names resolved by the proxy. Without credentials.
        case socks5h
    }

    /// How the proxy is spoken to.
    public let kind: Kind
    /// A name, or an address without brackets.
    public let host: String
    /// From 1 to 65535.
    public let port: Int

    /// A proxy; nothing is looked up.
    public init(_ kind: Kind, host: String, port: Int) { (self.kind, self.host, self.port) = (kind, host, port) }

    /// From `http://HOST:PORT` or `socks5h://HOST:PORT`.
    ///
    /// - Throws: ``HTTPError/unsupportedProxy(_:)``: a proxy behind TLS, one that would have this machine resolve names, or
    ///   credentials in the URL: they belong into a ``ProtectionSpace`` of their own.
    public init(_ text: String) throws(HTTPError) {
        let parts = text.split(separator: "://", maxSplits: 1)
        guard parts.count == 2 else { throw .unsupportedProxy("not a URL") }
        guard let kind = Kind(rawValue: parts[0].lowercased()) else {
            throw .unsupportedProxy("\(parts[0]):// is not http:// or socks5h://")
        }
        let authority = parts[1].hasSuffix("/") ? parts[1].dropLast() : parts[1]
        guard !authority.contains("@") else { throw .unsupportedProxy("credentials do not belong into its URL") }
        guard let colon = authority.lastIndex(of: ":"), let port = UInt16(authority[authority.index(after: colon)...]),
            port > 0
        else { throw .unsupportedProxy("its URL ends with a port, as in http://proxy.example:3128") }
        var host = authority[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") { host = host.dropFirst().dropLast() }
        guard let origin = Origin(scheme: "http", host: String(host), port: Int(port)) else {
            throw .unsupportedProxy("its URL has no host")
        }
        self.init(kind, host: origin.host, port: Int(port))
    }
}

extension HTTPProxy: CustomStringConvertible {
    /// As ``init(_:)`` reads it.
    public var description: String { "\(kind.rawValue)://\(Origin.authority(host, port))" }
}
