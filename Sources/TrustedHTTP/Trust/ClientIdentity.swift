import FoundationEssentials
public import ProtectionKeys

/// A certificate of the client and its private key, for servers that ask for one (RFC 8446 §4.4.2).
///
/// The key stays in libcrypto's memory: it is never written anywhere, nor turned into bytes. Two identities are equal if their
/// certificates are.
public struct ClientIdentity: Sendable {
    /// The client's own.
    public let certificate: Certificate
    /// Those that vouch for it; shown to the server as well.
    public let chain: [Certificate]

    let keys: LibSSL.IdentityKeys

    /// Reads a PKCS #12 file (RFC 7292): one private key, its certificate, and those that vouch for it.
    ///
    /// - Parameters:
    ///   - pkcs12: DER, or base 64 of it with line breaks or without.
    ///   - passphrase: UTF-8, without an end; nil if the file has none.
    /// - Throws: ``ClientIdentityError``.
    public init(pkcs12: [UInt8], passphrase: borrowing SecretBytes?) throws(ClientIdentityError) {
        let der = try Self.der(pkcs12)
        switch passphrase {
        case .some(let passphrase): try self.init(LibSSL.identity(pkcs12: der, passphrase: passphrase))
        case .none: try self.init(LibSSL.identity(pkcs12: der))
        }
    }

    /// The same, with a passphrase that several may hold.
    package init(pkcs12: [UInt8], secret: CredentialSecret?) throws(ClientIdentityError) {
        let der = try Self.der(pkcs12)
        if let secret {
            try self.init(LibSSL.identity(pkcs12: der, passphrase: secret.bytes))
        } else {
            try self.init(LibSSL.identity(pkcs12: der))
        }
    }

    private init(_ keys: LibSSL.IdentityKeys) throws(ClientIdentityError) {
        self.keys = keys
        do throws(TrustError) {
            let all = try keys.certificates()
            (certificate, chain) = (all[0], Array(all.dropFirst()))
        } catch {
            throw .malformed(why: error.description)
        }
    }

    /// What ``init(pkcs12:passphrase:)`` takes, as DER. A PKCS #12 file is a SEQUENCE of more than 127 bytes; base 64 of one
    /// begins with `M`.
    package static func der(_ bytes: [UInt8]) throws(ClientIdentityError) -> [UInt8] {
        if bytes.first == 0x30 && bytes.dropFirst().first.map({ $0 >= 0x80 }) == true { return bytes }
        let text = bytes.filter { ![0x0A, 0x0D, 0x20, 0x09].contains($0) }
        guard !text.isEmpty, let decoded = Data(base64Encoded: Data(text)) else {
            throw .malformed(why: "neither DER nor base 64")
        }
        return Array(decoded)
    }
}

extension ClientIdentity: Hashable {
    public static func == (a: ClientIdentity, b: ClientIdentity) -> Bool { a.certificate == b.certificate }
    public func hash(into hasher: inout Hasher) { hasher.combine(certificate) }
}

/// Why a file is not a ``ClientIdentity``.
@nonexhaustive
public enum ClientIdentityError: Error, Hashable {
    /// Not PKCS #12, or damaged.
    case malformed(why: String)
    /// Its authentication code (RFC 7292 §5.1) does not verify under this passphrase. That the file was altered cannot be told
    /// apart.
    case wrongPassphrase
    /// It has no authentication code, or one by a public key: nothing would tell a wrong passphrase from damage.
    case notAuthenticated
    /// To check the passphrase, and to decrypt everything in the file, would take so many iterations or more; the limit is 10,000,000.
    case tooExpensive(iterations: Int)
    /// It is encrypted by a method that libcrypto does not do, like the RC2 of old exports.
    case unsupportedEncryption
    /// There are certificates, and no key.
    case noPrivateKey
    /// None of its certificates is for its key.
    case noCertificate
}

extension ClientIdentityError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .malformed(let why): "not a PKCS #12 file: \(why)"
        case .wrongPassphrase: "wrong passphrase of the PKCS #12 file, or the file was altered"
        case .notAuthenticated: "the PKCS #12 file has no authentication code"
        case .tooExpensive(let iterations): "the PKCS #12 file asks for \(iterations) iterations"
        case .unsupportedEncryption: "the PKCS #12 file is encrypted by a method that is no longer supported"
        case .noPrivateKey: "the PKCS #12 file has no private key"
        case .noCertificate: "the PKCS #12 file has no certificate for its key"
        }
    }
}
