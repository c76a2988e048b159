extension ProtectionSpace {
    /// A server as people write it: `HOST`, `HOST:PORT`, `https://HOST:PORT`, or `proxy://HOST:PORT` for a proxy. An IPv6 address
    /// stands in brackets.
    ///
    /// nil for anything else: another scheme, a path, a user.
    public init?(server text: String, realm: String? = nil, method: AuthenticationMethod? = nil) {
        let parts = text.split(separator: "://", maxSplits: 1, omittingEmptySubsequences: false)
        let kind = parts.count == 2 ? Kind(rawValue: parts[0].lowercased()) : .https
        guard let kind, kind != .http, var authority = parts.last else { return nil }
        if authority.hasSuffix("/") { authority.removeLast() }
        var port: Int?
        if let colon = authority.lastIndex(of: ":"), !authority.hasSuffix("]") {
            guard let number = UInt16(authority[authority.index(after: colon)...]) else { return nil }
            port = Int(number)
            authority = authority[..<colon]
        }
        // Of a proxy no port is the usual one.
        guard kind == .https || port != nil, authority.hasPrefix("[") || !authority.contains(":"),
            let origin = Origin(scheme: "https", host: String(authority), port: port)
        else { return nil }
        self.init(kind, host: origin.host, port: origin.port, realm: realm, method: method)
    }
}
