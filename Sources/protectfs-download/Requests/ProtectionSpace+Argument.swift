extension ProtectionSpace {
    /// A server, or a proxy, as it is typed.
    init(argument text: String, realm: String? = nil, method: AuthenticationMethod? = nil) throws(Failure) {
        guard let space = ProtectionSpace(server: text, realm: realm, method: method) else {
            throw Failure(.usage, "\(quoted(text)) is no server: HOST, HOST:PORT, [ADDRESS]:PORT, or proxy://HOST:PORT")
        }
        self = space
    }

    /// A server alone.
    init(serverArgument text: String) throws(Failure) {
        try self.init(argument: text)
        guard kind == .https else { throw Failure(.usage, "\(quoted(text)) is a proxy, where a server belongs") }
    }
}
