/// A fault of a server's certificates that a person who knows the server may accept.
public enum RecoverableReason: String, Hashable, Sendable, CaseIterable, Codable {
    /// The certificate's time is over.
    case expired
    /// It has not begun.
    case notYetValid = "not-yet-valid"
    /// The server's certificate is for other hosts.
    case hostMismatch = "host-mismatch"
    /// The chain ends at a certificate whose issuer is nobody's anchor.
    case unknownRoot = "unknown-root"
    /// The server's certificate is signed by its own key, and is no anchor.
    case selfSigned = "self-signed"
    /// The issuer of the server's certificate was not presented, and is no anchor.
    case incompleteChain = "incomplete-chain"
}

/// What is wrong with a server's certificates, and nobody can accept.
public enum FatalReason: Hashable, Sendable {
    /// No pin of a group matches.
    case pinMismatch
    /// A signature does not verify.
    case badSignature
    /// The issuer of the certificate has revoked it.
    case revoked
    /// A key of less than 112 bits of security: RSA below 2048 bits (NIST SP 800-57 part 1, table 2).
    case weakKey
    /// A signature over MD5 or SHA-1.
    case weakSignature
    /// The certificate says that it is for something else than servers (RFC 5280 §4.2.1.12), or its issuer's does.
    case notForServers
    /// A certificate was issued by one that may not issue any (RFC 5280 §4.2.1.9), or not that many below it.
    case notAnAuthority
    /// A name that an authority of the chain must not issue certificates for (RFC 5280 §4.2.1.10).
    case nameConstraint
    /// An extension that must be understood and is not, or cannot be read.
    case extensionNotUnderstood
    /// A field of the certificate makes no sense.
    case malformed
    /// The chain is longer than anybody's.
    case chainTooLong
    /// Anything else that libcrypto refuses: the `X509_V_ERR_` code and its text.
    case other(code: Int32, String)
}

extension RecoverableReason: CustomStringConvertible {
    /// One word, for messages and scripts, and to be typed when it is excepted.
    public var description: String { rawValue }
}

extension FatalReason: CustomStringConvertible {
    /// One word, for messages and scripts.
    public var description: String {
        switch self {
        case .pinMismatch: "pin-mismatch"
        case .badSignature: "bad-signature"
        case .revoked: "revoked"
        case .weakKey: "weak-key"
        case .weakSignature: "weak-signature"
        case .notForServers: "not-for-servers"
        case .notAnAuthority: "not-an-authority"
        case .nameConstraint: "name-constraint"
        case .extensionNotUnderstood: "extension-not-understood"
        case .malformed: "malformed"
        case .chainTooLong: "chain-too-long"
        case .other(let code, _): "refused-\(code)"
        }
    }
}

/// What a code of libcrypto means.
enum VerificationReason: Hashable {
    case recoverable(RecoverableReason)
    case fatal(FatalReason)
    /// Somebody with the right to decide has refused it.
    case denied
}
