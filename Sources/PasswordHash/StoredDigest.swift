import ProtectionKeys

/// 32 bytes to compare with, and the only way to do that.
///
/// The bytes are private, there is no `==`, and what is compared with them has 32 bytes as well: no code of this module can
/// compare them in a time that depends on where they differ. CRYPTO_memcmp(3) looks at all of them.
struct StoredDigest: Sendable {
    static let length = 32
    private let bytes: [UInt8]

    /// Keeps what was derived, 32 bytes: stored, it is no secret as the password is.
    init(of derived: borrowing SecretBytes) {
        precondition(derived.count == Self.length)
        bytes = derived.withUnsafeBytes { Array($0) }
    }

    private init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Nil unless `text` is base 64 of 32 bytes, without padding.
    init?(base64 text: String) {
        guard let bytes = Base64.decodeUnpadded(text), bytes.count == Self.length else { return nil }
        self.bytes = bytes
    }

    /// 32 random bytes, which nothing matches.
    static func random() throws(KeyError) -> StoredDigest { StoredDigest(try Randomness.bytes(length)) }

    /// 43 characters.
    var base64: String { Base64.encodeUnpadded(bytes) }

    /// Whether `derived`, 32 bytes, is the same.
    func matches(_ derived: borrowing SecretBytes) -> Bool {
        derived.withUnsafeBytes { areEqualInConstantTime($0, bytes) }
    }
}
