public import FoundationEssentials

extension ServerTrust {
    /// Whether a connection may be used. Looks at nothing but its arguments and the system's roots.
    ///
    /// - Parameter time: when certificates must be valid. Parts of a second do not count.
    public func evaluate(_ chain: PresentedChain, at time: Date) -> TrustVerdict {
        let seconds = min(max(time.timeIntervalSince1970.rounded(.down), -1e15), 1e15)
        return evaluate(chain, at: Int64(seconds), roots: .system)
    }

    /// - Parameter time: seconds since 1970.
    func evaluate(_ chain: PresentedChain, at time: Int64, roots: SystemRoots) -> TrustVerdict {
        guard let server = chain.certificates.first else { return .evaluationFailed(.noCertificate) }
        do throws(TrustError) {
            let verification = try LibSSL.verify(
                chain.certificates, against: try store(for: chain, roots: roots), at: time)
            let host: HostFinding
            switch hostCheck {
            case .off: host = .fits
            case .requested: host = HostFinding(server, chain.host)
            case .expected(let name): host = HostFinding(server, name)
            }
            return TrustDecision(trust: self, chain: chain, time: time, verification: verification, host: host).verdict
        } catch .cryptographyLibrary(let operation) {
            return .evaluationFailed(.cryptographyLibrary(operation))
        } catch {
            return .evaluationFailed(.malformedCertificate(why: error.description))
        }
    }

    private func store(for chain: PresentedChain, roots: SystemRoots) throws(TrustError) -> LibSSL.CertificateStore {
        switch anchors {
        case .system: try roots.store()
        case .additional(let more): try roots.store(adding: more)
        case .only(let certificates): try LibSSL.CertificateStore(certificates)
        case .pinned: try LibSSL.CertificateStore(pins.flatMap { $0.vouching(of: chain.certificates) })
        }
    }
}

/// Whether the server's certificate is for the host that is meant.
enum HostFinding: Hashable {
    case fits
    case isForOthers(wanted: String)
    case noHost(String)

    init(_ certificate: Certificate, _ name: String) {
        self =
            if let host = HostName(name) {
                certificate.parsed.isFor(host) ? .fits : .isForOthers(wanted: name)
            } else {
                .noHost(name)
            }
    }
}
