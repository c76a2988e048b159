/// One challenge of a `WWW-Authenticate` or `Proxy-Authenticate` field (RFC 9110 §11.6.1).
struct Challenge: Hashable, Sendable {
    /// As it came.
    let scheme: String
    /// By names in lower case; of several with one name the first.
    private(set) var parameters: [String: String] = [:]
    /// In place of parameters: NTLM's messages, for one.
    private(set) var token: String?
    /// Whether libcurl, which is less strict, reads the same. Only then it may answer: it would take another realm otherwise.
    private(set) var isUnmistakable = true

    var realm: String? { parameters["realm"] }

    /// nil if it is one that this library cannot answer.
    var method: AuthenticationMethod? {
        switch scheme.lowercased() {
        case "basic": .basic
        case "ntlm": .ntlm
        case "bearer": .bearer
        case "digest" where isUnmistakable && digestAlgorithm != nil && offersPlainQuality: .digest
        default: nil
        }
    }

    /// RFC 7616 §3.3; nil if libcurl does not do it (SHA-512-256).
    var digestAlgorithm: String? {
        guard scheme.lowercased() == "digest" else { return nil }
        let name = (parameters["algorithm"] ?? "MD5").uppercased()
        return ["MD5", "MD5-SESS", "SHA-256", "SHA-256-SESS"].first { $0 == name }
    }

    /// Without a qop the challenge is RFC 2069's.
    private var offersPlainQuality: Bool {
        guard let qualities = parameters["qop"] else { return true }
        return qualities.split(separator: ",").contains { $0.filter { $0 != " " && $0 != "\t" }.lowercased() == "auth" }
    }

    /// Reads all challenges of all fields with that name, in their order. What cannot be read is left out.
    static func all(in response: HTTPResponse, named name: String) -> [Challenge] {
        response.headers.filter { $0.isNamed(name) }.flatMap { all(in: $0.value) }
    }

    static func all(in field: String) -> [Challenge] {
        var scanner = Scanner(field)
        var challenges: [Challenge] = []
        while !scanner.isAtEnd {
            scanner.skip(", \t")
            guard let word = scanner.word() else {
                scanner.skipElement()
                continue
            }
            if let value = scanner.value() {
                if !challenges.isEmpty { challenges[challenges.count - 1].add(word, value) }
            } else if scanner.skip(" \t") || scanner.isAtElementEnd {
                challenges.append(Challenge(scheme: word))
                challenges[challenges.count - 1].token = scanner.token68()
            } else {
                scanner.skipElement()
            }
        }
        return judged(challenges, in: field, isPlain: scanner.isPlain)
    }

    /// libcurl looks for `Digest` behind every comma, those in strings too, and takes for its parameters whatever follows in the
    /// field, of several with one name the last.
    private static func judged(_ challenges: [Challenge], in field: String, isPlain: Bool) -> [Challenge] {
        let elements = field.split(separator: ",").map { String($0.drop(while: " \t".contains)) }
        guard elements.contains(where: namesDigest) else { return challenges }
        var judged = challenges
        // From the last one on: a server can write tens of thousands into one field.
        var hasStrayParameters = !isPlain
        for index in challenges.indices.reversed() {
            let challenge = challenges[index]
            if hasStrayParameters { judged[index].isUnmistakable = false }
            let count = challenge.parameters.count + (challenge.token == nil ? 0 : 1)
            hasStrayParameters =
                hasStrayParameters || count > 1 || !challenge.isUnmistakable || namesDigest(challenge.scheme)
        }
        let seen = challenges.filter { namesDigest($0.scheme) }
        guard elements.filter(namesDigest).count != seen.count else { return judged }
        var hidden = Challenge(scheme: "Digest")
        hidden.isUnmistakable = false
        return [hidden] + judged
    }

    private static func namesDigest(_ text: String) -> Bool { text.lowercased().hasPrefix("digest") }

    private init(scheme: String) { self.scheme = scheme }

    private mutating func add(_ name: String, _ value: String) {
        let name = name.lowercased()
        // libcurl cuts off what is longer.
        isUnmistakable = isUnmistakable && parameters[name] == nil && name.utf8.count < 200 && value.utf8.count < 1000
        if parameters[name] == nil { parameters[name] = value }
    }
}

/// Goes through a field byte by byte. Never beyond its end, whatever is in it.
private struct Scanner {
    private var rest: Substring.UTF8View
    /// Whether nothing was met that readers differ in: spaces around `=`, escaped bytes, strings without an end, garbage.
    private(set) var isPlain = true

    init(_ text: String) { rest = Substring(text).utf8 }

    var isAtEnd: Bool { rest.isEmpty }
    var isAtElementEnd: Bool { rest.isEmpty || rest.first == UInt8(ascii: ",") }

    /// Whether there was anything to skip.
    @discardableResult
    mutating func skip(_ bytes: String) -> Bool {
        let before = rest.count
        rest = rest.drop { bytes.utf8.contains($0) }
        return rest.count < before
    }

    mutating func skipElement() {
        isPlain = isPlain && isAtElementEnd
        rest = rest.drop { $0 != UInt8(ascii: ",") }
    }

    /// A token (RFC 9110 §5.6.2).
    mutating func word() -> String? {
        let word = rest.prefix { RequestCheck.isToken(String(UnicodeScalar($0))) }
        rest = rest[word.endIndex...]
        return word.isEmpty ? nil : String(word)
    }

    /// What follows `=`: a token, or a string in quotes. nil, and nothing is skipped, if there is no `=` with one after it.
    mutating func value() -> String? {
        var ahead = self
        var hasSpace = ahead.skip(" \t")
        guard ahead.rest.first == UInt8(ascii: "=") else { return nil }
        ahead.rest = ahead.rest.dropFirst()
        hasSpace = ahead.skip(" \t") || hasSpace
        guard let value = ahead.rest.first == UInt8(ascii: "\"") ? ahead.quoted() : ahead.word() else { return nil }
        self = ahead
        ahead.skip(" \t")
        isPlain = isPlain && !hasSpace && ahead.isAtElementEnd
        return value
    }

    /// RFC 9110 §5.6.4; one without an end goes to the end of the field.
    private mutating func quoted() -> String? {
        var bytes: [UInt8] = []
        rest = rest.dropFirst()
        var hasEnded = false
        while !hasEnded, let byte = rest.popFirst() {
            hasEnded = byte == UInt8(ascii: "\"")
            if hasEnded { break }
            isPlain = isPlain && byte != UInt8(ascii: "\\")
            bytes.append(byte == UInt8(ascii: "\\") ? rest.popFirst() ?? byte : byte)
        }
        isPlain = isPlain && hasEnded
        return String(decoding: bytes, as: UTF8.self)
    }

    /// What is neither a parameter nor the next challenge (RFC 9110 §11.2); nil, and nothing is skipped, without it.
    mutating func token68() -> String? {
        let token = rest.prefix { $0 != UInt8(ascii: ",") && $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "\t") }
        let body = token.prefix { $0 != UInt8(ascii: "=") }
        let isOne =
            !body.isEmpty
            && body.allSatisfy {
                RequestCheck.isToken(String(UnicodeScalar($0))) || $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: ":")
            }
        guard isOne, token[body.endIndex...].allSatisfy({ $0 == UInt8(ascii: "=") }) else { return nil }
        let after = rest[token.endIndex...].drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
        guard after.isEmpty || after.first == UInt8(ascii: ",") else { return nil }
        rest = after
        return String(token)
    }
}
