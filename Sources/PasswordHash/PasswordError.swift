/// Why a password was not hashed or not checked. A wrong password is no error: `verify` says false.
///
/// No case holds anything of a password, a key or a stored string.
public enum PasswordError: Error, Hashable, Sendable {
    /// What is wrong with a password.
    public enum PasswordFault: Hashable, Sendable {
        /// It has no bytes.
        case empty
        /// In bytes. Nothing is ever cut off.
        case tooLong(count: Int, limit: Int)
        /// HMAC fills up with zero bytes, so `a` and `a` with a zero byte behind it would be one password.
        case hasZeroByte
    }
    /// A part of the salt of a client key.
    public enum SaltPart: String, Hashable, Sendable {
        /// The name of the service.
        case site
        /// The name of the user there.
        case userID
    }
    /// What is wrong with such a part.
    public enum SaltFault: Hashable, Sendable {
        /// It has no bytes.
        case empty
        /// In bytes of UTF-8.
        case tooLong(count: Int, limit: Int)
        /// Only of the site: `a:b` and user `c` would have the salt of `a` and user `b:c`.
        case hasColon
    }
    /// A field of an encoded string, in the order in which they stand.
    public enum Field: String, Hashable, Sendable {
        /// The name of the method, between the first two `$`.
        case scheme
        /// `i=`: how many rounds of PBKDF2.
        case iterations
        /// `l=`: the bytes of a client key.
        case length
        /// In base 64.
        case salt
        /// What was derived, in base 64.
        case digest
        /// What stands behind the last field.
        case end
    }

    /// The password cannot be used, right or wrong.
    case unusablePassword(PasswordFault)
    /// There can be no such salt.
    case unusableSalt(SaltPart, SaltFault)
    /// Too few to protect anybody, or so many that the machine would be busy for more than about a minute.
    case iterationsOutOfRange(Int, allowed: ClosedRange<Int>)
    /// The bytes are no client key of these parameters. In bytes.
    case wrongKeyLength(expected: Int, actual: Int)
    /// The string is not what this library writes.
    case malformed(Field, reason: String)
    /// libcrypto failed where it cannot fail on good input: a bug, or no random numbers.
    case cryptography(KeyError)
}
