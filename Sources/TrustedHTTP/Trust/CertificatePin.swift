import FoundationEssentials

/// The SHA-256 of a certificate, or of a public key, that a server is known by.
///
/// A pin of the key outlives the renewal of the certificate; a pin of the certificate does not. Both are compared with
/// certificates whose key has proved itself in the handshake or vouches for the one that has, never with others.
public struct CertificatePin: Hashable, Sendable {
    /// What the digest is of.
    public enum Subject: String, Hashable, Sendable, Codable {
        /// The whole certificate, DER.
        case certificate
        /// Its SubjectPublicKeyInfo, DER (RFC 7469 §2.4).
        case publicKey
    }

    /// What the digest is of.
    public let subject: Subject
    /// 32 bytes.
    public let sha256: [UInt8]

    /// A pin of this very certificate.
    public static func certificate(_ certificate: Certificate) -> CertificatePin {
        CertificatePin(subject: .certificate, sha256: certificate.sha256)
    }

    /// A pin of the certificate's key.
    public static func publicKey(of certificate: Certificate) -> CertificatePin {
        CertificatePin(subject: .publicKey, sha256: certificate.publicKeySHA256)
    }

    /// The pin of a certificate with this SHA-256, as ``init(_:_:)`` reads it.
    public static func certificate(_ digest: String) throws(TrustError) -> CertificatePin {
        try Self(.certificate, digest)
    }

    /// The pin of a public key with this SHA-256, as ``init(_:_:)`` reads it.
    public static func publicKey(_ digest: String) throws(TrustError) -> CertificatePin { try Self(.publicKey, digest) }

    /// Reads a digest of 32 bytes: hexadecimal (with colons or without, in either case) or base 64 (RFC 4648 §4), the latter
    /// also with curl's `sha256//` or OkHttp's `sha256/` before it.
    ///
    /// - Throws: ``TrustError/malformedPin(_:)``, ``TrustError/pinLength(bytes:_:)``.
    public init(_ subject: Subject, _ digest: String) throws(TrustError) {
        guard let bytes = Self.bytes(of: digest) else { throw .malformedPin(digest) }
        guard bytes.count == 32 else { throw .pinLength(bytes: bytes.count, digest) }
        self.init(subject: subject, sha256: bytes)
    }

    init(subject: Subject, sha256: [UInt8]) { (self.subject, self.sha256) = (subject, sha256) }

    func matches(_ certificate: Certificate) -> Bool {
        switch subject {
        case .certificate: certificate.sha256 == sha256
        case .publicKey: certificate.publicKeySHA256 == sha256
        }
    }

    private static func bytes(of digest: String) -> [UInt8]? {
        for prefix in ["sha256//", "sha256/"] where digest.hasPrefix(prefix) {
            return base64(String(digest.dropFirst(prefix.count)))
        }
        return Hexadecimal.bytes(digest) ?? base64(digest)
    }

    private static func base64(_ text: String) -> [UInt8]? {
        guard let data = Data(base64Encoded: text), !data.isEmpty, data.base64EncodedString() == text else {
            return nil
        }
        return Array(data)
    }
}

extension CertificatePin: CustomStringConvertible {
    /// As ``init(_:_:)`` reads it: a key in curl's manner, a certificate in hexadecimal.
    public var description: String {
        switch subject {
        case .certificate: Hexadecimal.text(sha256)
        case .publicKey: "sha256//" + Data(sha256).base64EncodedString()
        }
    }
}
