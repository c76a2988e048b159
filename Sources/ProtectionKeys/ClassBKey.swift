/// The public half of class B: it wraps file keys in every lock state.
public struct ClassBPublicKey: Hashable, Sendable {
    /// 32 bytes.
    public let bytes: [UInt8]

    /// - Throws: ``KeyError/wrongLength(of:expected:actual:)`` unless there are 32 bytes.
    public init(bytes: [UInt8]) throws(KeyError) {
        guard bytes.count == 32 else {
            throw .wrongLength(of: "class B public key", expected: 32, actual: bytes.count)
        }
        self.bytes = bytes
    }

    /// Wraps a file key: 72 bytes, ephemeral public key ‖ AES key wrap. FORMAT.md §1.2.
    ///
    /// The ephemeral private key is wiped before this returns.
    /// - Throws: ``KeyError/unusablePublicKey`` for a key that X25519 cannot agree with.
    /// - SeeAlso: Apple Platform Security, "Protected Unless Open"; SP 800-56A §5.8.1.
    public func wrap(_ fileKey: borrowing FileKey) throws(KeyError) -> WrappedKey {
        let ephemeral = try ClassBPrivateKey.randomScalar()
        let ephemeralPublic = try ephemeral.withUnsafeBytes { scalar throws(KeyError) in
            try LibCrypto.x25519PublicKey(of: scalar)
        }
        let kek = try agree(ephemeral, with: self, ephemeral: ephemeralPublic, classPublic: bytes)
        return WrappedKey(bytes: ephemeralPublic + (try KeyWrap.wrap(fileKey.secret, under: kek)).bytes)
    }
}

/// The private half of class B: an X25519 scalar (RFC 7748 §5).
public struct ClassBPrivateKey: ~Copyable, Sendable {
    /// Which key this is; its class is ``ProtectionClass/completeUnlessOpen``.
    public let name: ClassKeyName
    /// The other half, computed from the private key: X25519(private, 9).
    public let publicKey: ClassBPublicKey
    private let secret: SecretBytes

    /// Takes the 32 bytes that the keyring or the keybag held.
    public init(name: ClassKeyName, secret: consuming SecretBytes) throws(KeyError) {
        guard secret.count == 32 else {
            throw .wrongLength(of: "class B private key", expected: 32, actual: secret.count)
        }
        publicKey = try ClassBPublicKey(
            bytes: secret.withUnsafeBytes { scalar throws(KeyError) in try LibCrypto.x25519PublicKey(of: scalar) })
        self.name = name
        self.secret = secret
    }

    /// A new key pair.
    public static func random(name: ClassKeyName) throws(KeyError) -> ClassBPrivateKey {
        try ClassBPrivateKey(name: name, secret: randomScalar())
    }

    /// 16 bytes, not secret, that name this key. FORMAT.md §1.1 row 8.
    public borrowing func id() throws(KeyError) -> [UInt8] {
        try secret.derivePublic(.classKeyID, name.context, byteCount: 16)
    }

    /// Recovers the file key that ``ClassBPublicKey/wrap(_:)`` produced.
    ///
    /// - Parameter wrapped: 72 bytes.
    /// - Throws: ``KeyError/unwrapFailed``, ``KeyError/unusablePublicKey`` for an all-zero agreement.
    public borrowing func unwrap(_ wrapped: WrappedKey) throws(KeyError) -> FileKey {
        guard wrapped.bytes.count == 72 else {
            throw .wrongLength(of: "wrapped key", expected: 72, actual: wrapped.bytes.count)
        }
        let ephemeral = try ClassBPublicKey(bytes: Array(wrapped.bytes[..<32]))
        let kek = try agree(secret, with: ephemeral, ephemeral: ephemeral.bytes, classPublic: publicKey.bytes)
        return FileKey(secret: try KeyWrap.unwrap(WrappedKey(bytes: Array(wrapped.bytes[32...])), under: kek))
    }

    /// Lends the 32 bytes, for the kernel keyring.
    public borrowing func withUnsafeBytes<R: ~Copyable, E: Error>(
        _ body: (UnsafeRawBufferPointer) throws(E) -> R
    ) throws(E) -> R {
        try secret.withUnsafeBytes(body)
    }

    borrowing func wrapped(under kek: borrowing SecretBytes) throws(KeyError) -> WrappedKey {
        try KeyWrap.wrap(secret, under: kek)
    }

    /// 32 random bytes; X25519 itself clamps them (RFC 7748 §5).
    fileprivate static func randomScalar() throws(KeyError) -> SecretBytes {
        try SecretBytes(randomByteCount: 32)
    }
}

/// SHA-256(00000001 ‖ X25519(scalar, other) ‖ ephemeral public ‖ class public).
private func agree(
    _ scalar: borrowing SecretBytes, with other: ClassBPublicKey, ephemeral: [UInt8], classPublic: [UInt8]
) throws(KeyError) -> SecretBytes {
    let input = try scalar.withUnsafeBytes { scalar throws(KeyError) in
        try SecretBytes(byteCount: 100) { input throws(KeyError) in
            input[3] = 1
            let shared = UnsafeMutableRawBufferPointer(rebasing: input[4..<36])
            try LibCrypto.x25519(privateKey: scalar, publicKey: other.bytes, into: shared)
            input[36..<68].copyBytes(from: ephemeral)
            input[68..<100].copyBytes(from: classPublic)
        }
    }
    return try input.withUnsafeBytes { input throws(KeyError) in
        try SecretBytes(byteCount: 32) { kek throws(KeyError) in try LibCrypto.sha256(input, into: kek) }
    }
}
