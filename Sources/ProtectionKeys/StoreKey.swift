/// 32 random bytes under which the values of a database are sealed, one by one: each under a key of its own, bound to its place.
///
/// A sealed value is salt (16) ‖ nonce (12) ‖ ciphertext ‖ tag (16), 44 bytes longer than the value. FORMAT.md §2.14.
public struct StoreKey: ~Copyable, Sendable {
    /// Bytes of the key.
    public static let length = 32
    /// Bytes that sealing adds.
    public static let overhead = 16 + 28

    private let secret: SecretBytes

    /// - Throws: ``KeyError/wrongLength(of:expected:actual:)`` unless there are 32 bytes.
    public init(secret: consuming SecretBytes) throws(KeyError) {
        let count = secret.count
        guard count == Self.length else {
            throw .wrongLength(of: "store key", expected: Self.length, actual: count)
        }
        self.secret = secret
    }

    /// Seals a value.
    ///
    /// - Parameter place: where it belongs: what is moved to another place does not open there.
    public borrowing func seal(_ value: UnsafeRawBufferPointer, at place: [UInt8]) throws(KeyError) -> [UInt8] {
        let salt = try Randomness.bytes(16)
        var sealer = try Sealer(key: try valueKey(salt, place))
        let nonce = try Randomness.bytes(12)
        var sealed = [UInt8](repeating: 0, count: value.count + 28)
        try nonce.lendBytes { nonce throws(KeyError) in
            try place.lendBytes { place throws(KeyError) in
                try sealed.lendMutableBytes { sealed throws(KeyError) in
                    try sealer.seal(value, nonce: nonce, associated: place, into: sealed)
                }
            }
        }
        return salt + sealed
    }

    /// Opens a value that was sealed at the same place.
    ///
    /// - Throws: ``KeyError/authenticationFailed``: altered, from another place, or under another key.
    public borrowing func open(_ sealed: [UInt8], at place: [UInt8]) throws(KeyError) -> [UInt8] {
        var value = [UInt8](repeating: 0, count: max(sealed.count - Self.overhead, 0))
        try value.lendMutableBytes { value throws(KeyError) in try open(sealed, at: place, into: value) }
        return value
    }

    /// Opens a value that is a secret.
    ///
    /// - Throws: as ``open(_:at:)``.
    public borrowing func openSecret(_ sealed: [UInt8], at place: [UInt8]) throws(KeyError) -> SecretBytes {
        try SecretBytes(byteCount: max(sealed.count - Self.overhead, 0)) { value throws(KeyError) in
            try open(sealed, at: place, into: value)
        }
    }

    /// 32 bytes that identify a secret, and reveal nothing of it without the key.
    public borrowing func mark(of secret: borrowing SecretBytes) throws(KeyError) -> [UInt8] {
        let key = MACKey(secret: try self.secret.derive(.storedMark, []))
        return try secret.withUnsafeBytes { bytes throws(KeyError) in try key.tag(of: bytes) }
    }

    private borrowing func open(
        _ sealed: [UInt8], at place: [UInt8], into value: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        guard sealed.count >= Self.overhead else { throw .authenticationFailed }
        var opener = try Opener(key: try valueKey(Array(sealed[..<16]), place))
        try Array(sealed[16...]).lendBytes { sealed throws(KeyError) in
            try place.lendBytes { place throws(KeyError) in
                try opener.open(sealed, associated: place, into: value)
            }
        }
    }

    private borrowing func valueKey(_ salt: [UInt8], _ place: [UInt8]) throws(KeyError) -> SecretBytes {
        try secret.derive(.storedValue, place, publicSalt: salt)
    }
}
