/// The key of a keybag: it wraps the class keys and authenticates the keybag. Every passcode slot wraps this one key.
public struct KeybagKey: ~Copyable, Sendable {
    /// The keybag it belongs to.
    public let keybag: KeybagUUID
    private let secret: SecretBytes

    init(keybag: KeybagUUID, secret: consuming SecretBytes) {
        self.keybag = keybag
        self.secret = secret
    }

    /// A new key: 32 random bytes.
    public static func random(for keybag: KeybagUUID) throws(KeyError) -> KeybagKey {
        KeybagKey(keybag: keybag, secret: try SecretBytes(randomByteCount: 32))
    }

    /// The key of the MAC over a keybag copy. FORMAT.md §1.1 row 4.
    public borrowing func macKey() throws(KeyError) -> MACKey {
        MACKey(secret: try secret.derive(.keybagMAC, keybag.bytes))
    }

    /// Wraps a class key: 40 bytes.
    public borrowing func wrap(_ key: borrowing ClassKey) throws(KeyError) -> WrappedKey {
        try key.wrapped(under: secret.derive(.classKeyWrap, keybag.bytes))
    }

    /// Wraps class key B's private half: 40 bytes.
    public borrowing func wrap(_ key: borrowing ClassBPrivateKey) throws(KeyError) -> WrappedKey {
        try key.wrapped(under: secret.derive(.classKeyWrap, keybag.bytes))
    }

    /// - Throws: ``KeyError/unwrapFailed``.
    public borrowing func unwrap(_ wrapped: WrappedKey, as name: ClassKeyName) throws(KeyError) -> ClassKey {
        try ClassKey(name: name, secret: KeyWrap.unwrap(wrapped, under: secret.derive(.classKeyWrap, keybag.bytes)))
    }

    /// - Throws: ``KeyError/unwrapFailed``.
    public borrowing func unwrapB(_ wrapped: WrappedKey, as name: ClassKeyName) throws(KeyError) -> ClassBPrivateKey {
        try ClassBPrivateKey(
            name: name, secret: KeyWrap.unwrap(wrapped, under: secret.derive(.classKeyWrap, keybag.bytes)))
    }

    /// Wraps under `other` what this key wraps, whatever kind of class key it is: for a rotation.
    ///
    /// - Throws: ``KeyError/unwrapFailed``.
    public borrowing func rewrap(
        _ wrapped: WrappedKey, under other: borrowing KeybagKey
    ) throws(KeyError) -> WrappedKey {
        let key = try KeyWrap.unwrap(wrapped, under: secret.derive(.classKeyWrap, keybag.bytes))
        return try KeyWrap.wrap(key, under: other.secret.derive(.classKeyWrap, keybag.bytes))
    }

    /// Wraps what is no class key, and has its place in an entry of a reserved kind.
    borrowing func wrapped(_ other: borrowing SecretBytes) throws(KeyError) -> WrappedKey {
        try KeyWrap.wrap(other, under: secret.derive(.classKeyWrap, keybag.bytes))
    }

    borrowing func wrapped(under kek: borrowing SecretBytes) throws(KeyError) -> WrappedKey {
        try KeyWrap.wrap(secret, under: kek)
    }
}

/// The key that a passcode gives: it wraps the keybag key. PBKDF2 (RFC 8018 §5.2), then HKDF with the device key as salt.
public struct PasscodeKEK: ~Copyable, Sendable {
    /// 16 bits of the passcode, to count the same wrong one once. Never stored as it is. FORMAT.md §1.1 row 7.
    public let guessTag: UInt16
    private let keybag: KeybagUUID
    private let secret: SecretBytes

    /// Derives the key; this takes as long as `iterations` make it.
    ///
    /// - Parameters:
    ///   - passcode: 1 to 1,024 bytes, taken as they are.
    ///   - salt: 32 bytes.
    ///   - iterations: already checked against the bounds of FORMAT.md §2.1.
    public init(
        passcode: borrowing SecretBytes, salt: [UInt8], iterations: Int, device: borrowing DeviceKey,
        keybag: KeybagUUID
    ) throws(KeyError) {
        let stretched = try PBKDF2.stretch(passcode, salt: salt, iterations: iterations)
        let tag = try stretched.derive(.guessTag, keybag.bytes, salt: device.secret)
        let kek = try stretched.derive(.passcodeKEK, keybag.bytes, salt: device.secret)
        guessTag = tag.withUnsafeBytes { UInt16($0[0]) | UInt16($0[1]) << 8 }
        secret = kek
        self.keybag = keybag
    }

    /// Wraps the keybag key: 40 bytes.
    public borrowing func wrap(_ key: borrowing KeybagKey) throws(KeyError) -> WrappedKey {
        try key.wrapped(under: secret)
    }

    /// - Throws: ``KeyError/unwrapFailed`` for another passcode or an altered keybag.
    public borrowing func unwrap(_ wrapped: WrappedKey) throws(KeyError) -> KeybagKey {
        KeybagKey(keybag: keybag, secret: try KeyWrap.unwrap(wrapped, under: secret))
    }
}
