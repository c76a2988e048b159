/// The key of a backup: it wraps the class keys in a backup keybag and authenticates that. FORMAT.md §2.16.
public struct BackupKey: ~Copyable, Sendable {
    /// The keybag whose class keys it wraps.
    public let keybag: KeybagUUID
    private let secret: SecretBytes

    init(keybag: KeybagUUID, secret: consuming SecretBytes) {
        self.keybag = keybag
        self.secret = secret
    }

    /// A new key: 32 random bytes.
    public static func random(for keybag: KeybagUUID) throws(KeyError) -> BackupKey {
        BackupKey(keybag: keybag, secret: try SecretBytes(randomByteCount: 32))
    }

    /// The key of the MAC over a backup keybag. FORMAT.md §1.1 row 21.
    public borrowing func macKey() throws(KeyError) -> MACKey {
        MACKey(secret: try secret.derive(.backupMAC, keybag.bytes))
    }

    /// Wraps a class key: 40 bytes. FORMAT.md §1.1 row 20.
    public borrowing func wrap(_ key: borrowing ClassKey) throws(KeyError) -> WrappedKey {
        try key.wrapped(under: wrappingKey())
    }

    /// Wraps class key B's private half: 40 bytes.
    public borrowing func wrap(_ key: borrowing ClassBPrivateKey) throws(KeyError) -> WrappedKey {
        try key.wrapped(under: wrappingKey())
    }

    /// - Throws: ``KeyError/unwrapFailed``.
    public borrowing func unwrap(_ wrapped: WrappedKey, as name: ClassKeyName) throws(KeyError) -> ClassKey {
        try ClassKey(name: name, secret: KeyWrap.unwrap(wrapped, under: wrappingKey()))
    }

    /// - Throws: ``KeyError/unwrapFailed``.
    public borrowing func unwrapB(_ wrapped: WrappedKey, as name: ClassKeyName) throws(KeyError) -> ClassBPrivateKey {
        try ClassBPrivateKey(name: name, secret: KeyWrap.unwrap(wrapped, under: wrappingKey()))
    }

    /// Wraps under `other` what this key wraps, whatever kind of class key it is: for a backup keybag that is made anew.
    ///
    /// - Throws: ``KeyError/unwrapFailed``.
    public borrowing func rewrap(
        _ wrapped: WrappedKey, under other: borrowing BackupKey
    ) throws(KeyError) -> WrappedKey {
        try KeyWrap.wrap(KeyWrap.unwrap(wrapped, under: wrappingKey()), under: other.wrappingKey())
    }

    private borrowing func wrappingKey() throws(KeyError) -> SecretBytes {
        try secret.derive(.backupClassKeyWrap, keybag.bytes)
    }

    fileprivate borrowing func wrapped(under kek: borrowing SecretBytes) throws(KeyError) -> WrappedKey {
        try KeyWrap.wrap(secret, under: kek)
    }
}

/// The key that a backup's passphrase gives: it wraps the backup key, without any device key. FORMAT.md §1.1 row 19.
public struct BackupKEK: ~Copyable, Sendable {
    private let keybag: KeybagUUID
    private let secret: SecretBytes

    /// Derives the key: PBKDF2 (RFC 8018 §5.2), then HKDF without a salt. Takes as long as `iterations` make it.
    ///
    /// - Parameters:
    ///   - passphrase: 1 to 1,024 bytes, taken as they are.
    ///   - salt: 32 bytes.
    ///   - iterations: already checked against the bounds of FORMAT.md §2.16.
    public init(
        passphrase: borrowing SecretBytes, salt: [UInt8], iterations: Int, keybag: KeybagUUID
    ) throws(KeyError) {
        let stretched = try PBKDF2.stretch(passphrase, salt: salt, iterations: iterations)
        secret = try stretched.derive(.backupKEK, keybag.bytes)
        self.keybag = keybag
    }

    /// Wraps the backup key: 40 bytes.
    public borrowing func wrap(_ key: borrowing BackupKey) throws(KeyError) -> WrappedKey {
        try key.wrapped(under: secret)
    }

    /// - Throws: ``KeyError/unwrapFailed`` for another passphrase or an altered backup keybag.
    public borrowing func unwrap(_ wrapped: WrappedKey) throws(KeyError) -> BackupKey {
        BackupKey(keybag: keybag, secret: try KeyWrap.unwrap(wrapped, under: secret))
    }
}
