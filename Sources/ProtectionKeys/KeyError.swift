/// Why an operation on keys failed.
public enum KeyError: Error, Hashable, Sendable {
    /// The integrity value of a key wrap is wrong: another wrapping key, or altered bytes. The two cannot be told apart.
    case unwrapFailed
    /// An AES-GCM tag is wrong: another key, other associated data, or altered bytes.
    case authenticationFailed
    /// X25519 gave the all-zero secret: the other public key is not a usable point (RFC 7748 §6.1).
    case unusablePublicKey
    /// A field has the wrong length, in bytes.
    case wrongLength(of: String, expected: Int, actual: Int)
    /// libcrypto refused an operation that cannot fail on good input; `code` is ERR_get_error(3)'s. Or getrandom(2) failed; `code` is errno.
    case libraryFailed(operation: String, code: UInt)
}
