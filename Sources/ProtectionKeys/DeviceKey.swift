/// The key of this machine and user: 32 random bytes that never leave it. It stands where Apple has the UID.
public struct DeviceKey: ~Copyable, Sendable {
    let secret: SecretBytes

    /// Takes the 32 bytes that the device key's file holds.
    public init(secret: consuming SecretBytes) throws(KeyError) {
        guard secret.count == 32 else { throw .wrongLength(of: "device key", expected: 32, actual: secret.count) }
        self.secret = secret
    }

    /// A new key.
    public static func random() throws(KeyError) -> DeviceKey {
        try DeviceKey(secret: SecretBytes(randomByteCount: 32))
    }

    /// 16 bytes, not secret: tells another machine from a wrong passcode. FORMAT.md §1.1 row 6.
    public borrowing func id(for keybag: KeybagUUID) throws(KeyError) -> [UInt8] {
        try secret.derivePublic(.deviceID, keybag.bytes, byteCount: 16)
    }

    /// Wraps class key D, which opens in every state: 40 bytes. FORMAT.md §1.1 row 5.
    public borrowing func wrap(_ key: borrowing ClassKey) throws(KeyError) -> WrappedKey {
        try key.wrapped(under: secret.derive(.deviceClassKeyWrap, key.name.keybag.bytes))
    }

    /// - Throws: ``KeyError/unwrapFailed``.
    public borrowing func unwrap(_ wrapped: WrappedKey, as name: ClassKeyName) throws(KeyError) -> ClassKey {
        try ClassKey(
            name: name,
            secret: KeyWrap.unwrap(wrapped, under: secret.derive(.deviceClassKeyWrap, name.keybag.bytes)))
    }

    /// The key of the MAC over class B's public key. FORMAT.md §1.1 row 10.
    public borrowing func bPublicMACKey(for keybag: KeybagUUID) throws(KeyError) -> MACKey {
        MACKey(secret: try secret.derive(.bPublicMAC, keybag.bytes))
    }

    /// The key of the MAC that tells where a file was made. FORMAT.md §1.1 row 11.
    public borrowing func originMACKey(for keybag: KeybagUUID) throws(KeyError) -> MACKey {
        MACKey(secret: try secret.derive(.originMAC, keybag.bytes))
    }

    /// Lends the 32 bytes, for the file that keeps them.
    public borrowing func withUnsafeBytes<R: ~Copyable, E: Error>(
        _ body: (UnsafeRawBufferPointer) throws(E) -> R
    ) throws(E) -> R {
        try secret.withUnsafeBytes(body)
    }
}
