public import ProtectionKeys

/// Why a message could not be sealed or opened.
@nonexhaustive
public enum RNCryptorError: Error, Hashable, Sendable {
    /// These bytes do not begin as a message of any version.
    case notRNCryptor
    /// A message of a version that is not read: 0, 1, or the draft of 4.
    case unsupportedVersion(UInt8)
    /// The message ends too early, or in the middle of a block: no whole one has `length` bytes.
    case truncated(length: Int64)
    /// The HMAC is wrong: another password or other keys, or an altered message. The two cannot be told apart.
    case wrongPasswordOrAltered
    /// What came the second time is not what was verified.
    case changedSinceVerified
    /// The HMAC is right and the padding is not: the program that made the message did not follow the format.
    case malformed
    /// The message was sealed with a password, and keys were given.
    case needsPassword
    /// The message was sealed with keys, and a password was given.
    case needsKeys
    /// A password has at least one byte.
    case emptyPassword
    /// A password has `limit` bytes at most.
    case passwordTooLong(limit: Int)
    /// Encryption key and HMAC key have 64 bytes together, not `length`.
    case wrongKeyLength(length: Int)
    /// A buffer or a piece has not the length that was asked for.
    case wrongLength(expected: Int, actual: Int)
    /// A failure before, of this very value, has left nothing to go on with.
    case unusable
    /// libcrypto refused what cannot fail on good input.
    case cryptography(KeyError)
}

/// Runs `body` with the errors of the layer below put into ours.
func withKeys<R: ~Copyable>(_ body: () throws(KeyError) -> R) throws(RNCryptorError) -> R {
    do throws(KeyError) { return try body() } catch { throw .cryptography(error) }
}
