import ProtectionKeys

/// What a client sends in place of the password. It opens the account, so it is as secret as the password: send it over TLS, and
/// keep it nowhere.
public struct ClientKey: ~Copyable, Sendable {
    /// The parameters that it was made with. Making it again needs them.
    public let parameters: ClientKeyParameters
    /// 16, 20 or 32 bytes, as ``parameters`` say.
    public let secret: SecretBytes

    /// A key as it came from a client that registers.
    ///
    /// - Throws: ``PasswordError/wrongKeyLength(expected:actual:)``.
    public init(secret: consuming SecretBytes, parameters: ClientKeyParameters) throws(PasswordError) {
        guard secret.count == parameters.length.rawValue else {
            throw .wrongKeyLength(expected: parameters.length.rawValue, actual: secret.count)
        }
        self.parameters = parameters
        self.secret = secret
    }
}

extension PasswordHash {
    /// Makes the client key of a user who registers, with ``ClientKeyParameters/calibrated(length:)`` parameters.
    ///
    /// Send its ``ClientKey/parameters`` with it: nobody makes the same key without them. To log in use
    /// ``clientKey(password:site:userID:parameters:)`` with those that the server tells.
    ///
    /// - Throws: as ``clientKey(password:site:userID:parameters:)``.
    public static func clientKey(
        password: borrowing SecretBytes, site: String, userID: String
    ) throws(PasswordError) -> ClientKey {
        try clientKey(password: password, site: site, userID: userID, parameters: .calibrated())
    }

    /// Makes the client key of a user: PBKDF2-HMAC-SHA256 with the salt site ‖ ":" ‖ user ID. It works for as long as the
    /// iterations take, on the thread that calls.
    ///
    /// The user's name takes the place of a random salt: a client that knows nothing yet can log in, the same password gives
    /// other keys at other sites, and who wants to guess must do it for each user anew.
    ///
    /// - Parameters:
    ///   - password: 1 to 1,024 bytes without a zero byte, taken as they are.
    ///   - site: 1 to 255 bytes of UTF-8 without a colon: a host name, not an origin with its port. Else site `a:b` with user `c`
    ///     would have the salt of site `a` with user `b:c`.
    ///   - userID: 1 to 1,024 bytes of UTF-8, colons included. Site and user ID are taken as they are: `Ann` and `ann`, or é written
    ///     in two ways, are two users, so normalise before.
    /// - Throws: ``PasswordError/unusablePassword(_:)``, ``PasswordError/unusableSalt(_:_:)``.
    public static func clientKey(
        password: borrowing SecretBytes, site: String, userID: String, parameters: ClientKeyParameters
    ) throws(PasswordError) -> ClientKey {
        try PasswordRules.check(password)
        let salt = try clientSalt(site: site, userID: userID)
        let secret: SecretBytes
        do throws(KeyError) {
            secret = try PBKDF2.derive(
                password, salt: salt, iterations: parameters.iterations.count, byteCount: parameters.length.rawValue)
        } catch {
            throw .cryptography(error)
        }
        return try ClientKey(secret: secret, parameters: parameters)
    }

    /// site ‖ ":" ‖ user ID. The first colon ends the site, so no two pairs have one salt.
    static func clientSalt(site: String, userID: String) throws(PasswordError) -> [UInt8] {
        let colon = UInt8(ascii: ":")
        for (part, text, limit) in [(PasswordError.SaltPart.site, site, 255), (.userID, userID, 1024)] {
            guard !text.isEmpty else { throw .unusableSalt(part, .empty) }
            guard text.utf8.count <= limit else {
                throw .unusableSalt(part, .tooLong(count: text.utf8.count, limit: limit))
            }
        }
        guard !site.utf8.contains(colon) else { throw .unusableSalt(.site, .hasColon) }
        return Array(site.utf8) + [colon] + Array(userID.utf8)
    }
}
