public import ProtectionKeys

/// What a message is sealed with: a password, or two keys.
public struct RNCryptorSecret: ~Copyable, Sendable {
    /// Bytes of a password, at most: PKCS5_PBKDF2_HMAC(3) counts with an int.
    public static let longestPassword = Int(Int32.max)
    /// Bytes of both keys together.
    public static let keysLength = 64
    /// Rounds of PBKDF2-HMAC-SHA1; the format has no field for more.
    static let rounds = 10_000
    static let keyLength = 32

    /// Which of the two it is.
    public let kind: RNCryptorHeader.Kind
    private let bytes: SecretBytes

    /// A password: its bytes as they are, UTF-8 in messages of others. Every byte counts.
    ///
    /// - Throws: ``RNCryptorError/emptyPassword``, ``RNCryptorError/passwordTooLong(limit:)`` (2^31 bytes and more).
    public init(password: consuming SecretBytes) throws(RNCryptorError) {
        try Self.refuse(passwordOf: password.count)
        kind = .password
        bytes = password
    }

    /// Keys, which should be random.
    ///
    /// - Parameter keys: 64 bytes: encryption key (32) ‖ HMAC key (32).
    /// - Throws: ``RNCryptorError/wrongKeyLength(length:)``.
    public init(keys: consuming SecretBytes) throws(RNCryptorError) {
        let count = keys.count
        guard count == Self.keysLength else { throw .wrongKeyLength(length: count) }
        kind = .keys
        bytes = keys
    }

    static func refuse(passwordOf count: Int) throws(RNCryptorError) {
        guard count > 0 else { throw .emptyPassword }
        guard count <= longestPassword else { throw .passwordTooLong(limit: longestPassword) }
    }

    /// The keys of the message that begins so, in the first reading that there is.
    borrowing func keys(for header: RNCryptorHeader) throws(RNCryptorError) -> MessageKeys {
        try keys(for: header, passwordPrefix: bytes.count)
    }

    /// The keys in the second reading, which only passwords of version 2 have.
    ///
    /// The first implementation of version 2 gave PBKDF2 the password's length in characters (UTF-16 code units), and so cut
    /// passwords that are not ASCII; others did not. RNCryptor-Spec, "Changes since version 2".
    borrowing func cutKeys(for header: RNCryptorHeader) throws(RNCryptorError) -> MessageKeys? {
        guard header.version == 2, kind == .password else { return nil }
        let characters = bytes.withUnsafeBytes(Self.utf16Length)
        return characters < bytes.count && characters > 0 ? try keys(for: header, passwordPrefix: characters) : nil
    }

    private borrowing func keys(for header: RNCryptorHeader, passwordPrefix: Int) throws(RNCryptorError) -> MessageKeys
    {
        guard kind == header.kind else { throw header.kind == .password ? .needsPassword : .needsKeys }
        let half = Self.keyLength
        guard kind == .password else {
            return MessageKeys(encryption: bytes.slice(0..<half), mac: bytes.slice(half..<2 * half))
        }
        return try withKeys { () throws(KeyError) in
            MessageKeys(
                encryption: try bytes.pbkdf2SHA1(
                    prefix: passwordPrefix, salt: header.encryptionSalt, iterations: Self.rounds, byteCount: half),
                mac: try bytes.pbkdf2SHA1(
                    prefix: passwordPrefix, salt: header.macSalt, iterations: Self.rounds, byteCount: half))
        }
    }

    /// How many UTF-16 code units UTF-8 text has. Counted over the bytes: a String would be a copy of the password.
    private static func utf16Length(_ text: UnsafeRawBufferPointer) -> Int {
        text.reduce(0) { count, byte in
            switch byte {
            case 0x80..<0xC0: count  // goes on with a character
            case 0xF0...: count + 2  // begins one that needs two units
            default: count + 1
            }
        }
    }
}
