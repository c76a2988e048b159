/// A problem with one certificate of one server that the user has accepted.
///
/// It is for exactly this host, port, certificate and these reasons. Only what is recoverable has a reason to write here.
public struct TrustException: Hashable, Sendable {
    /// As in the URL, in lower case.
    public let host: String
    /// The port of the server.
    public let port: Int
    /// SHA-256 of the certificate that has the problem (``TrustProblem/certificate``), 32 bytes.
    public let certificateSHA256: [UInt8]
    /// The problems that are accepted, and no others.
    public let reasons: Set<RecoverableReason>

    /// - Parameter certificate: its SHA-256, as ``CertificatePin/init(_:_:)`` reads it.
    /// - Throws: ``TrustError/malformedHostName(_:)``, ``TrustError/malformedPin(_:)``, ``TrustError/pinLength(bytes:_:)``.
    public init(host: String, port: Int, certificate: String, reasons: Set<RecoverableReason>) throws(TrustError) {
        guard HostName(host) != nil, 1...65535 ~= port else { throw .malformedHostName("\(host):\(port)") }
        let digest = try CertificatePin(.certificate, certificate).sha256
        self.init(host: host, port: port, certificateSHA256: digest, reasons: reasons)
    }

    /// The exceptions without which `problems` stay problems, one for each certificate.
    public static func covering(
        _ problems: [TrustProblem<RecoverableReason>], of chain: PresentedChain
    ) -> Set<TrustException> {
        let reasons = Dictionary(grouping: problems, by: \.certificate)
        return Set(
            reasons.map { certificate, problems in
                TrustException(
                    host: chain.host, port: chain.port, certificateSHA256: certificate.sha256,
                    reasons: Set(problems.map(\.reason)))
            })
    }

    private init(host: String, port: Int, certificateSHA256: [UInt8], reasons: Set<RecoverableReason>) {
        (self.host, self.port) = (host.lowercased(), port)
        (self.certificateSHA256, self.reasons) = (certificateSHA256, reasons)
    }

    func isFor(_ host: String, _ port: Int) -> Bool {
        self.port == port && HostName(self.host) == HostName(host) && HostName(host) != nil
    }

    func isOfSameCertificate(as other: TrustException) -> Bool {
        isFor(other.host, other.port) && certificateSHA256 == other.certificateSHA256
    }

    func adding(_ more: Set<RecoverableReason>) -> TrustException {
        TrustException(
            host: host, port: port, certificateSHA256: certificateSHA256, reasons: reasons.union(more))
    }

    func covers(_ problem: TrustProblem<RecoverableReason>, of chain: PresentedChain) -> Bool {
        isFor(chain.host, chain.port) && certificateSHA256 == problem.certificate.sha256
            && reasons.contains(problem.reason)
    }
}
