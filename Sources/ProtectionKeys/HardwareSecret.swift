/// 32 random bytes that hardware keeps, and gives out only for a value that the passcode yields. FORMAT.md §2.21.
public struct HardwareSecret: ~Copyable, Sendable {
    let secret: SecretBytes

    /// In bytes.
    public static let length = 32

    /// A new secret.
    public static func random() throws(KeyError) -> HardwareSecret {
        try HardwareSecret(secret: SecretBytes(randomByteCount: length))
    }

    /// Takes the 32 bytes that the hardware gave.
    public init(secret: consuming SecretBytes) throws(KeyError) {
        guard secret.count == Self.length else {
            throw .wrongLength(of: "hardware secret", expected: Self.length, actual: secret.count)
        }
        self.secret = secret
    }

    /// Lends the 32 bytes, for the hardware that keeps them.
    package borrowing func withSecret<R: ~Copyable, E: Error>(
        _ body: (borrowing SecretBytes) throws(E) -> R
    ) throws(E) -> R {
        try body(secret)
    }

    /// Whether these are the same bytes, in a time that does not depend on where they differ.
    package borrowing func isEqual(to other: borrowing HardwareSecret) -> Bool { secret.isEqual(to: other.secret) }
}

/// What PBKDF2 makes of a passcode where hardware takes part. FORMAT.md §2.21 rows 28 to 30.
///
/// It opens nothing alone: the hardware's secret is missing.
public struct StretchedPasscode: ~Copyable, Sendable {
    /// Of the passcode slot: 32 bytes.
    package let salt: [UInt8]
    /// Of the passcode slot.
    package let iterations: Int
    private let secret: SecretBytes

    /// Derives it; this takes as long as `iterations` make it.
    ///
    /// - Parameters:
    ///   - passcode: 1 to 1,024 bytes, taken as they are.
    ///   - salt: 32 bytes.
    ///   - iterations: already checked against the bounds of FORMAT.md §2.1.
    public init(passcode: borrowing SecretBytes, salt: [UInt8], iterations: Int) throws(KeyError) {
        secret = try PBKDF2.stretch(passcode, salt: salt, iterations: iterations)
        self.salt = salt
        self.iterations = iterations
    }

    /// What the hardware compares: 32 bytes, of which the last is never 0, because a TPM strips zeros from the end. FORMAT.md §2.21 row 28.
    ///
    /// - Parameter share: the id of the share, 16 bytes.
    public borrowing func authorization(
        for share: [UInt8], on device: borrowing DeviceKey, keybag: KeybagUUID
    ) throws(KeyError) -> SecretBytes {
        var value = try secret.derive(.hardwareAuth, keybag.bytes + share, salt: device.secret)
        value.withUnsafeMutableBytes { value in
            if value[value.count - 1] == 0 { value[value.count - 1] = 1 }
        }
        return value
    }

    /// What takes the place of the passcode in its slot: 32 bytes. FORMAT.md §2.21 row 29.
    public borrowing func passcode(
        with hardware: borrowing HardwareSecret, keybag: KeybagUUID
    ) throws(KeyError) -> SecretBytes {
        try hardware.secret.derive(.hardwarePasscode, keybag.bytes, salt: secret)
    }

    /// The mark by which the same wrong passcode is recognized while the machine runs: 32 secret bytes. FORMAT.md §2.21 row 30.
    ///
    /// - Parameter key: 32 random bytes of this boot.
    public borrowing func mark(under key: borrowing SecretBytes, keybag: KeybagUUID) throws(KeyError) -> SecretBytes {
        try secret.derive(.hardwareGuess, keybag.bytes, salt: key)
    }
}

extension KeybagKey {
    /// Wraps a hardware secret under the class-wrapping key: 40 bytes.
    public borrowing func wrap(_ hardware: borrowing HardwareSecret) throws(KeyError) -> WrappedKey {
        try wrapped(hardware.secret)
    }
}
