import ProtectionKeys

/// What a server keeps of a client key: its SHA-256. A stolen database holds nothing that logs in.
///
///     $client-pbkdf2-sha256$i=500000,l=32$DIGEST
///     i, l    as ClientKeyParameters
///     DIGEST  SHA-256 of the client key, base 64 without padding
///
/// The salt is no field: it is site ‖ ":" ‖ user ID, which both sides know. One SHA-256 is enough, because what it is of has
/// been stretched by the client. It cannot be compared with `==`: ``verify(_:)`` is the only way.
public struct StoredVerifier: Sendable {
    /// What the client key was made with. Tell them to a client that wants to log in.
    public let parameters: ClientKeyParameters
    private let digest: StoredDigest

    private init(parameters: ClientKeyParameters, digest: StoredDigest) {
        self.parameters = parameters
        self.digest = digest
    }

    /// The verifier of a client key: what a server stores when a user registers.
    public init(of key: borrowing ClientKey) throws(PasswordError) {
        do throws(KeyError) {
            digest = StoredDigest(of: try Digest.sha256(key.secret))
        } catch {
            throw .cryptography(error)
        }
        parameters = key.parameters
    }

    /// A verifier of no key, for a user whom there is not: it costs what a real one costs, and says false.
    ///
    /// Tell such a user's client the same parameters as all others: an answer that is different says which users there are.
    public static func decoy(parameters: ClientKeyParameters) throws(PasswordError) -> StoredVerifier {
        do throws(KeyError) {
            return StoredVerifier(parameters: parameters, digest: try .random())
        } catch {
            throw .cryptography(error)
        }
    }

    /// Whether these bytes, as they came from a client that logs in, are the client key; compared in constant time.
    ///
    /// - Throws: ``PasswordError/wrongKeyLength(expected:actual:)`` if they are none of these parameters.
    public func verify(_ secret: borrowing SecretBytes) throws(PasswordError) -> Bool {
        guard secret.count == parameters.length.rawValue else {
            throw .wrongKeyLength(expected: parameters.length.rawValue, actual: secret.count)
        }
        do throws(KeyError) {
            return digest.matches(try Digest.sha256(secret))
        } catch {
            throw .cryptography(error)
        }
    }

    /// Whether the client, which alone has the password, should register a new key: this one was made with fewer iterations.
    ///
    /// - Parameter least: what the service wants. There is no default: a slow client may have calibrated to less than another one.
    public func needsRehash(least: Iterations) -> Bool { parameters.iterations < least }

    // MARK: as text

    /// Reads what ``encoded`` wrote.
    ///
    /// - Throws: ``PasswordError/malformed(_:reason:)``.
    public init(encoded: String) throws(PasswordError) {
        var fields = try EncodedFields(encoded)
        let parameters = try ClientKeyParameters(reading: &fields)
        let digest = try fields.digest()
        try fields.end()
        self.init(parameters: parameters, digest: digest)
    }

    /// The string for the database, at most 90 ASCII characters.
    public var encoded: String { "\(parameters.encoded)$\(digest.base64)" }
}
