/// What opens class key C on this machine, and no other key: for a machine that unlocks itself. FORMAT.md §2.20.
///
/// 32 random bytes, which the keybag does not have. Somebody keeps them where the machine can get at them at its start: sealed by a TPM, or on
/// a server of its network.
public struct FirstUnlockSecret: ~Copyable, Sendable {
    private let secret: SecretBytes

    private static let byteCount = 32
    /// Characters of ``text()``: two hexadecimal digits for each byte.
    public static let textLength = 2 * byteCount

    /// A new secret.
    public static func random() throws(KeyError) -> FirstUnlockSecret {
        FirstUnlockSecret(secret: try SecretBytes(randomByteCount: byteCount))
    }

    private init(secret: consuming SecretBytes) { self.secret = secret }

    /// Reads what ``text()`` has made: 64 hexadecimal digits, in either case; nil if it is anything else.
    public init?(reading text: borrowing SecretBytes) {
        guard text.count == Self.textLength else { return nil }
        var bytes = SecretBytes(zeroed: Self.byteCount)
        let isGood = text.withUnsafeBytes { text in
            bytes.withUnsafeMutableBytes { bytes in
                for index in bytes.indices {
                    let (first, second) = (text[2 * index], text[2 * index + 1])
                    guard let high = Hexadecimal.value(first), let low = Hexadecimal.value(second) else { return false }
                    bytes[index] = high << 4 | low
                }
                return true
            }
        }
        guard isGood else { return nil }
        secret = bytes
    }

    /// The secret as people and programs keep it: 64 hexadecimal digits in lower case.
    public borrowing func text() -> SecretBytes {
        secret.withUnsafeBytes { bytes in
            SecretBytes(byteCount: Self.textLength) { text in
                for (index, byte) in bytes.enumerated() {
                    text[2 * index] = Hexadecimal.digit(byte >> 4)
                    text[2 * index + 1] = Hexadecimal.digit(byte & 15)
                }
            }
        }
    }

    /// 16 bytes, not secret, by which a keybag knows it. FORMAT.md §2.20 row 24.
    public borrowing func id(for keybag: KeybagUUID) throws(KeyError) -> [UInt8] {
        try secret.derivePublic(.firstUnlockID, keybag.bytes, byteCount: 16)
    }

    /// Wraps a class key, on the machine with this device key: 40 bytes. FORMAT.md §2.20 row 25.
    public borrowing func wrap(
        _ key: borrowing ClassKey, on device: borrowing DeviceKey
    ) throws(KeyError) -> WrappedKey {
        try key.wrapped(under: secret.derive(.firstUnlockKEK, key.name.context, salt: device.secret))
    }

    /// - Throws: ``KeyError/unwrapFailed``.
    public borrowing func unwrap(
        _ wrapped: WrappedKey, as name: ClassKeyName, on device: borrowing DeviceKey
    ) throws(KeyError) -> ClassKey {
        let kek = try secret.derive(.firstUnlockKEK, name.context, salt: device.secret)
        return try ClassKey(name: name, secret: KeyWrap.unwrap(wrapped, under: kek))
    }

    /// The key of the MAC over what a keybag says of it. FORMAT.md §2.20 row 26.
    public borrowing func macKey(
        for keybag: KeybagUUID, on device: borrowing DeviceKey
    ) throws(KeyError) -> MACKey {
        MACKey(secret: try secret.derive(.firstUnlockMAC, keybag.bytes, salt: device.secret))
    }
}
