/// The key of class A, C or D: it wraps file keys.
public struct ClassKey: ~Copyable, Sendable {
    /// Which key this is.
    public let name: ClassKeyName
    private let secret: SecretBytes

    /// Takes the 32 bytes that the keyring or the keybag held.
    public init(name: ClassKeyName, secret: consuming SecretBytes) throws(KeyError) {
        guard secret.count == 32 else { throw .wrongLength(of: "class key", expected: 32, actual: secret.count) }
        self.name = name
        self.secret = secret
    }

    /// A new key: 32 random bytes.
    public static func random(name: ClassKeyName) throws(KeyError) -> ClassKey {
        try ClassKey(name: name, secret: SecretBytes(randomByteCount: 32))
    }

    /// 16 bytes, not secret, that name this key. FORMAT.md §1.1 row 8.
    public borrowing func id() throws(KeyError) -> [UInt8] {
        try secret.derivePublic(.classKeyID, name.context, byteCount: 16)
    }

    /// Wraps a file key: 40 bytes. RFC 3394 under FORMAT.md §1.1 row 9.
    public borrowing func wrap(_ fileKey: borrowing FileKey) throws(KeyError) -> WrappedKey {
        try KeyWrap.wrap(fileKey.secret, under: secret.derive(.fileKeyWrap, name.context))
    }

    /// Recovers the file key that ``wrap(_:)`` produced.
    ///
    /// - Parameter wrapped: 40 bytes: the 32-byte key and an 8-byte integrity value.
    /// - Throws: ``KeyError/unwrapFailed`` if the integrity check fails. No partial key is ever returned.
    /// - SeeAlso: RFC 3394 §2.2.2; SP 800-38F §6.2.
    public borrowing func unwrap(_ wrapped: WrappedKey) throws(KeyError) -> FileKey {
        FileKey(secret: try KeyWrap.unwrap(wrapped, under: secret.derive(.fileKeyWrap, name.context)))
    }

    /// The key of the MAC over class B's public key. FORMAT.md §1.1 row 10.
    public borrowing func bPublicMACKey() throws(KeyError) -> MACKey {
        MACKey(secret: try secret.derive(.bPublicMAC, name.keybag.bytes))
    }

    /// The key of the MAC that tells where a file was made. FORMAT.md §1.1 row 11.
    public borrowing func originMACKey() throws(KeyError) -> MACKey {
        MACKey(secret: try secret.derive(.originMAC, name.keybag.bytes))
    }

    /// The key of the MAC that tells who added an upload. FORMAT.md §1.1 row 22.
    public borrowing func uploadMACKey() throws(KeyError) -> MACKey {
        MACKey(secret: try secret.derive(.uploadMAC, name.context))
    }

    /// The 64 bytes SHA-512(00000001 ‖ class key ‖ `info`): what masks a handle's keys in memory. Never stored.
    ///
    /// The one-step derivation of SP 800-56C §4, for its speed: a handle on a class A file does it for every operation.
    /// - Parameter info: always of the same length.
    public borrowing func mask(_ info: [UInt8]) throws(KeyError) -> SecretBytes {
        try secret.withUnsafeBytes { key throws(KeyError) in
            // One slot for both: the digest is written over what it was made of.
            try SecretBytes(capacity: max(64, 36 + info.count)) { slot throws(KeyError) in
                slot[3] = 1
                slot[4..<36].copyBytes(from: key)
                slot[36...].copyBytes(from: info)
                let input = UnsafeRawBufferPointer(rebasing: slot[..<(36 + info.count)])
                try LibCrypto.sha512(input, into: UnsafeMutableRawBufferPointer(rebasing: slot[..<64]))
                return 64
            }
        }
    }

    /// Lends the 32 bytes, for the kernel keyring.
    public borrowing func withUnsafeBytes<R: ~Copyable, E: Error>(
        _ body: (UnsafeRawBufferPointer) throws(E) -> R
    ) throws(E) -> R {
        try secret.withUnsafeBytes(body)
    }

    /// HKDF of this key under a label, with its name as context.
    borrowing func derived(_ label: Label) throws(KeyError) -> SecretBytes { try secret.derive(label, name.context) }

    /// The same with a secret salt.
    borrowing func derived(_ label: Label, salt: borrowing SecretBytes) throws(KeyError) -> SecretBytes {
        try secret.derive(label, name.context, salt: salt)
    }

    borrowing func wrapped(under kek: borrowing SecretBytes) throws(KeyError) -> WrappedKey {
        try KeyWrap.wrap(secret, under: kek)
    }
}
