/// The key that a recovery code gives: it wraps the keybag key without any device key. FORMAT.md §1.1 row 2.
public struct RecoveryKEK: ~Copyable, Sendable {
    private let keybag: KeybagUUID
    private let secret: SecretBytes

    /// Derives the key: PBKDF2 (RFC 8018 §5.2), then HKDF without a salt.
    ///
    /// - Parameters:
    ///   - salt: 32 bytes.
    ///   - iterations: already checked against the bounds of FORMAT.md §2.1.
    public init(
        code: borrowing RecoveryCode, salt: [UInt8], iterations: Int, keybag: KeybagUUID
    ) throws(KeyError) {
        let stretched = try PBKDF2.stretch(code.symbols, salt: salt, iterations: iterations)
        secret = try stretched.derive(.recoveryKEK, keybag.bytes)
        self.keybag = keybag
    }

    /// Wraps the keybag key: 40 bytes.
    public borrowing func wrap(_ key: borrowing KeybagKey) throws(KeyError) -> WrappedKey {
        try key.wrapped(under: secret)
    }

    /// - Throws: ``KeyError/unwrapFailed`` for another code or an altered keybag.
    public borrowing func unwrap(_ wrapped: WrappedKey) throws(KeyError) -> KeybagKey {
        KeybagKey(keybag: keybag, secret: try KeyWrap.unwrap(wrapped, under: secret))
    }
}
