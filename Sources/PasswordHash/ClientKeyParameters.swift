/// What client and server must both know to come to the same client key. Not secret.
///
///     $client-pbkdf2-sha256$i=500000,l=32
///     i   iterations, 10,000 to 100,000,000
///     l   bytes of the key: 16, 20 or 32
///
/// The client chooses them when it registers and sends them with the key. The server keeps them with the account
/// (``StoredVerifier/parameters``) and tells them to a client that wants to log in, *before* it does. One spelling only, as for
/// ``PasswordHash``.
public struct ClientKeyParameters: Hashable, Sendable {
    static let scheme = "client-pbkdf2-sha256"

    /// Bytes of a client key. One block of PBKDF2 gives all of them, so a shorter key costs nobody less.
    public enum KeyLength: Int, CaseIterable, Hashable, Sendable {
        /// 128 bits.
        case bytes16 = 16
        /// 160 bits, as long as a SHA-1.
        case bytes20 = 20
        /// 256 bits: all that the derivation gives.
        case bytes32 = 32
    }

    /// What it costs to try a password.
    public let iterations: Iterations
    /// Of the key.
    public let length: KeyLength

    /// Given ones, the same for all clients of a service for instance.
    public init(iterations: Iterations, length: KeyLength = .bytes32) {
        self.iterations = iterations
        self.length = length
    }

    /// As many iterations as take 80 to 100 ms on this machine; measured now.
    public static func calibrated(length: KeyLength = .bytes32) throws(PasswordError) -> ClientKeyParameters {
        ClientKeyParameters(iterations: try Iterations.calibrated(), length: length)
    }

    /// Reads what ``encoded`` wrote.
    ///
    /// A server can ask for 10,000 iterations or for 100,000,000: a client that fears its server looks at ``iterations`` before it
    /// derives.
    ///
    /// - Throws: ``PasswordError/malformed(_:reason:)``.
    public init(encoded: String) throws(PasswordError) {
        var fields = try EncodedFields(encoded)
        try self.init(reading: &fields)
        try fields.end()
    }

    /// Reads them at the beginning of something longer.
    init(reading fields: inout EncodedFields) throws(PasswordError) {
        try fields.scheme(Self.scheme)
        let iterations = try fields.iterations()
        guard let length = KeyLength(rawValue: try fields.length()) else {
            throw .malformed(.length, reason: "it is not 16, 20 or 32")
        }
        self.init(iterations: iterations, length: length)
    }

    /// For the client, and for the database.
    public var encoded: String { "$\(Self.scheme)$i=\(iterations.count),l=\(length.rawValue)" }
}
