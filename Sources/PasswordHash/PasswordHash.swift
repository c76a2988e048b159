import ProtectionKeys

/// What a server keeps of a password that it sees at each login: PBKDF2-HMAC-SHA256 with a random salt.
///
///     $pbkdf2-sha256$i=600000,l=32$SALT$DIGEST
///     i       iterations, 10,000 to 100,000,000
///     l       bytes of the digest, always 32
///     SALT    16 to 48 bytes, base 64 without padding; 16 random bytes where we write it
///     DIGEST  PBKDF2-HMAC-SHA256(password, salt, i, 32 bytes), base 64 without padding
///
/// It is the PHC string format, which other implementations read, with one spelling for each hash: no other order, no other
/// field, no padding. docs/guide/PASSWORDS.md. It cannot be compared with `==`: ``verify(_:)`` is the only way.
public struct PasswordHash: Sendable {
    static let scheme = "pbkdf2-sha256"
    /// NIST SP 800-132 §5.1: at least 128 bits. The PHC string format has room for 48 bytes.
    static let saltLengths = 16...48

    /// What it costs to try a password.
    public let iterations: Iterations
    private let salt: [UInt8]
    private let digest: StoredDigest

    private init(iterations: Iterations, salt: [UInt8], digest: StoredDigest) {
        self.iterations = iterations
        self.salt = salt
        self.digest = digest
    }

    /// Hashes a new password under a new random salt. It works for as long as the iterations take, on the thread that calls.
    ///
    /// - Parameters:
    ///   - password: 1 to 1,024 bytes without a zero byte, taken as they are: normalise text before (RFC 8265), as its owner
    ///     may type it on another keyboard.
    ///   - iterations: without them as many as take 90 ms on this machine, and never fewer than ``Iterations/recommended``.
    ///     That is measured anew each time, so a server measures once, or decides.
    /// - Throws: ``PasswordError/unusablePassword(_:)``.
    public static func hash(
        _ password: borrowing SecretBytes, iterations: Iterations? = nil
    ) throws(PasswordError) -> PasswordHash {
        try PasswordRules.check(password)
        let count = if let iterations { iterations } else { try Iterations.calibrated(least: .recommended) }
        do throws(KeyError) {
            let salt = try Randomness.bytes(saltLengths.lowerBound)
            let derived = try PBKDF2.derive(password, salt: salt, iterations: count.count)
            return PasswordHash(iterations: count, salt: salt, digest: StoredDigest(of: derived))
        } catch {
            throw .cryptography(error)
        }
    }

    /// A hash of no password, to be asked for a user whom there is not: it costs what a real one costs, and says false.
    ///
    ///     let right = try (users[name] ?? decoy).verify(password)
    ///
    /// Without it the time of an answer says which users there are. Make it once, with the iterations of the real ones.
    public static func decoy(iterations: Iterations) throws(PasswordError) -> PasswordHash {
        do throws(KeyError) {
            return PasswordHash(
                iterations: iterations, salt: try Randomness.bytes(saltLengths.lowerBound), digest: try .random())
        } catch {
            throw .cryptography(error)
        }
    }

    /// Whether this is the password that was hashed; compared in constant time.
    ///
    /// - Throws: ``PasswordError/unusablePassword(_:)`` for one that can never have been hashed, whichever hash is asked.
    public func verify(_ password: borrowing SecretBytes) throws(PasswordError) -> Bool {
        try PasswordRules.check(password)
        do throws(KeyError) {
            return digest.matches(try PBKDF2.derive(password, salt: salt, iterations: iterations.count))
        } catch {
            throw .cryptography(error)
        }
    }

    /// Whether it should be made anew, now that the password is there and right, because it has fewer iterations.
    public func needsRehash(least: Iterations = .recommended) -> Bool { iterations < least }

    // MARK: as text

    /// Reads what ``encoded`` wrote.
    ///
    /// - Throws: ``PasswordError/malformed(_:reason:)``, before anything is derived: a string that somebody has altered can
    ///   neither weaken the hash below 10,000 iterations nor keep the server busy beyond 100,000,000.
    public init(encoded: String) throws(PasswordError) {
        var fields = try EncodedFields(encoded)
        try fields.scheme(Self.scheme)
        iterations = try fields.iterations()
        let length = try fields.length()
        guard length == StoredDigest.length else {
            throw .malformed(.length, reason: "it is not \(StoredDigest.length)")
        }
        guard let salt = Base64.decodeUnpadded(try fields.base64(.salt)), Self.saltLengths.contains(salt.count) else {
            throw .malformed(.salt, reason: "it is not 16 to 48 bytes in base 64 without padding")
        }
        digest = try fields.digest()
        try fields.end()
        self.salt = salt
    }

    /// The string for the database, at most 140 ASCII characters. Not secret as a password is, yet who has it can guess.
    public var encoded: String {
        "$\(Self.scheme)$i=\(iterations.count),l=\(StoredDigest.length)$\(Base64.encodeUnpadded(salt))$\(digest.base64)"
    }
}
