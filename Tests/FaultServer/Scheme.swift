/// Who a path of a ``FaultServer`` is for; several mean a choice.
public struct Scheme: Encodable, Sendable {
    public var scheme: String
    public var user: String?
    public var password: String?
    /// One, or one for each challenge.
    public var realm: [String] = ["test"]
    public var algorithm: String?
    public var userhash = false
    /// How often a nonce of Digest is good.
    public var uses: Int?
    public var tokens: [String]?
    public var domain: String?
    public var challenge: String?
    /// 407 instead of 401.
    public var proxy = false

    private init(_ scheme: String) { self.scheme = scheme }

    public static func basic(_ user: String, _ password: String) -> Scheme { of("basic", user, password) }
    public static func digest(_ user: String, _ password: String, _ algorithm: String = "SHA-256") -> Scheme {
        of("digest", user, password).with(\.algorithm, algorithm)
    }
    /// NTLMv2; the domain is what the client says that it is.
    public static func ntlm(_ user: String, _ password: String, domain: String = "") -> Scheme {
        of("ntlm", user, password).with(\.domain, domain)
    }
    public static func bearer(_ tokens: String...) -> Scheme { Scheme("bearer").with(\.tokens, tokens) }
    /// A challenge that nothing answers.
    public static func other(_ challenge: String) -> Scheme { Scheme("raw").with(\.challenge, challenge) }

    private static func of(_ name: String, _ user: String, _ password: String) -> Scheme {
        Scheme(name).with(\.user, user).with(\.password, password)
    }

    public func with<Value>(_ field: WritableKeyPath<Scheme, Value>, _ value: Value) -> Scheme {
        var changed = self
        changed[keyPath: field] = value
        return changed
    }
}
