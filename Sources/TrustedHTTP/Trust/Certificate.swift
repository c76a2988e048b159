import FoundationEssentials

/// An X.509 certificate, by its DER bytes (RFC 5280 §4.1).
///
/// Two certificates are equal if their bytes are. What the properties say is the certificate's own word: whether to believe
/// it is for ``ServerTrust`` to say.
public struct Certificate: Sendable {
    /// As it was presented or read, unchanged.
    public let der: [UInt8]
    /// SHA-256 of ``der``, 32 bytes: its *fingerprint*.
    public let sha256: [UInt8]
    /// SHA-256 of the DER of its SubjectPublicKeyInfo, 32 bytes (RFC 7469 §2.4): stays the same when the certificate is
    /// renewed for the same key.
    public let publicKeySHA256: [UInt8]
    /// As RFC 4514 writes names, in printable ASCII: `CN=example.org,O=Example`.
    public let subject: String
    /// The issuer that the certificate names, written likewise.
    public let issuer: String
    /// The names of hosts in its SubjectAltName, wildcards included. A common name is not one of them (RFC 9525 §6.3).
    public let hostNames: [String]
    /// The IP addresses in its SubjectAltName, written as usual.
    public let addresses: [String]
    /// When it begins and when it ends; nil if one of them cannot be read. At the second of its end it is refused, one earlier than
    /// RFC 5280 §4.1.2.5 has it.
    public let validity: ClosedRange<Date>?
    /// Whether its own key has signed it.
    public var isSelfSigned: Bool { parsed.isSelfSigned }

    let parsed: LibSSL.ParsedCertificate

    /// Reads one certificate.
    ///
    /// - Parameter der: nothing may follow it.
    /// - Throws: ``TrustError/malformedCertificate(why:)``, also for what is not encoded in the one way that DER allows.
    public init(der: [UInt8]) throws(TrustError) {
        parsed = try LibSSL.parse(der)
        sha256 = try LibSSL.sha256(der)
        publicKeySHA256 = try LibSSL.sha256(parsed.subjectPublicKeyInfo)
        (subject, issuer) = (parsed.subject, parsed.issuer)
        (hostNames, addresses) = parsed.alternativeNames
        validity = parsed.validity.map {
            Date(timeIntervalSince1970: Double($0.lowerBound))...Date(timeIntervalSince1970: Double($0.upperBound))
        }
        self.der = der
    }

    /// Reads the only certificate of a PEM text (RFC 7468 §5).
    ///
    /// - Throws: ``TrustError``; ``TrustError/malformedCertificate(why:)`` if there are several, too.
    public init(pem: String) throws(TrustError) {
        let all = try Certificate.all(pem: pem)
        guard all.count == 1 else { throw .malformedCertificate(why: "\(all.count) of them, where one belongs") }
        self = all[0]
    }

    /// Reads all certificates of a PEM text, in their order. What stands between them is ignored (RFC 7468 §5.2).
    ///
    /// - Throws: ``TrustError/noCertificate`` if there is none, ``TrustError/notACertificate(label:)`` if there is something
    ///   else, and ``TrustError/malformedCertificate(why:)``.
    public static func all(pem: String) throws(TrustError) -> [Certificate] {
        var certificates: [Certificate] = []
        for block in try LibSSL.pemBlocks(Array(pem.utf8)) {
            guard block.label == "CERTIFICATE" else { throw .notACertificate(label: block.label) }
            certificates.append(try Certificate(der: block.bytes))
        }
        guard !certificates.isEmpty else { throw .noCertificate }
        return certificates
    }

    /// As a file keeps it, with a line break at its end (RFC 7468 §5.1).
    public var pem: String {
        let body = Data(der).base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed])
        return "-----BEGIN CERTIFICATE-----\n\(body)\n-----END CERTIFICATE-----\n"
    }

    /// Reads what a file with certificates holds: PEM, or one certificate in DER.
    public static func all(from bytes: [UInt8]) throws(TrustError) -> [Certificate] {
        // A certificate is a SEQUENCE of more than 127 bytes: no text begins like that.
        if bytes.starts(with: [0x30]) && bytes.dropFirst().first.map({ $0 >= 0x80 }) == true {
            return [try Certificate(der: bytes)]
        }
        return try all(pem: String(decoding: bytes, as: UTF8.self))
    }
}

extension Certificate: Hashable {
    public static func == (a: Certificate, b: Certificate) -> Bool { a.der == b.der }
    public func hash(into hasher: inout Hasher) { hasher.combine(sha256) }
}

extension Certificate: CustomStringConvertible {
    /// One line for messages: subject, names, fingerprint and pin. All of it is printable ASCII, however it was made up.
    public var description: String {
        let names = (hostNames + addresses).map { Escaped($0, limit: 80).description }
        let shown = names.prefix(8).joined(separator: ", ") + (names.count > 8 ? " and \(names.count - 8) more" : "")
        let whose = subject.isEmpty ? "a certificate without a subject" : subject
        return whose + (names.isEmpty ? ", no host names" : ", for \(shown)")
            + ", SHA-256 \(Hexadecimal.text(sha256)), key \(CertificatePin.publicKey(of: self))"
    }
}
