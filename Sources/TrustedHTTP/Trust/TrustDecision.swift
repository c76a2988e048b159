import FoundationEssentials

/// Makes a verdict of what was found. Looks at nothing else.
struct TrustDecision {
    let trust: ServerTrust
    let chain: PresentedChain
    let time: Int64
    let verification: LibSSL.Verification
    let host: HostFinding

    var verdict: TrustVerdict {
        if case .noHost(let name) = host { return .evaluationFailed(.malformedHostName(name)) }
        guard let server = chain.certificates.first else { return .evaluationFailed(.noCertificate) }

        let refusals = verification.refusals.map { ($0, $0.reason) }
        for certificate in chain.certificates + verification.chain
        where trust.distrusted.contains(where: { $0.matches(certificate) }) {
            return .denied(by: .distrusted(certificate))
        }
        for (refusal, reason) in refusals where reason == .denied {
            return .denied(by: .system(refusal.certificate ?? server))
        }

        var (fatal, recoverable): ([TrustProblem<FatalReason>], [TrustProblem<RecoverableReason>]) = ([], [])
        for group in trust.pins where !group.matches(presented: chain.certificates, verified: verification.chain) {
            fatal.append(mismatch(of: group, server))
        }
        for (refusal, reason) in refusals {
            switch reason {
            case .fatal(let reason): fatal.append(problem(reason, refusal, server))
            case .recoverable(let reason): recoverable.append(problem(reason, refusal, server))
            case .denied: continue
            }
        }
        if case .isForOthers(let wanted) = host {
            let names = (server.hostNames + server.addresses).prefix(8).map { Escaped($0, limit: 80).description }
            recoverable.append(
                TrustProblem(
                    reason: .hostMismatch, certificate: server,
                    seen: names.isEmpty ? "no host names" : names.joined(separator: ", "),
                    wanted: Escaped(wanted).description))
        }
        // One cause can be met more than once on the way.
        (fatal, recoverable) = (fatal.unique, recoverable.unique)

        guard fatal.isEmpty else { return .fatal(fatal, beside: recoverable) }
        guard verification.wasCompleted else { return .evaluationFailed(.cryptographyLibrary("X509_verify_cert")) }
        let left = recoverable.filter { problem in !trust.exceptions.contains { $0.covers(problem, of: chain) } }
        guard left.isEmpty else { return .recoverable(left) }
        return trust.pins.isEmpty && recoverable.isEmpty ? .trusted : .explicitlyTrusted
    }

    private func mismatch(of group: PinGroup, _ server: Certificate) -> TrustProblem<FatalReason> {
        let (looked, place): ([Certificate], String) =
            switch group.place {
            case .server: ([server], "as the server's")
            case .anyInChain: (verification.chain, "in the verified chain")
            case .wholeChain: (chain.certificates, "for each that is presented")
            }
        let subjects = Set(group.pins.map(\.subject)).sorted { $0.rawValue < $1.rawValue }
        let seen = looked.flatMap { certificate in
            subjects.map { $0 == .certificate ? CertificatePin.certificate(certificate) : .publicKey(of: certificate) }
        }
        return TrustProblem(
            reason: .pinMismatch, certificate: server, seen: seen.map(\.description).joined(separator: ", "),
            wanted: "one of \(group.pins.map(\.description).sorted().joined(separator: ", ")) \(place)")
    }

    private func problem(
        _ reason: RecoverableReason, _ refusal: LibSSL.Refusal, _ server: Certificate
    ) -> TrustProblem<RecoverableReason> {
        let certificate = refusal.certificate ?? server
        switch reason {
        case .expired, .notYetValid:
            let validity = certificate.validity.map {
                "valid from \($0.lowerBound.formatted(.iso8601)) to \($0.upperBound.formatted(.iso8601))"
            }
            return TrustProblem(
                reason: reason, certificate: certificate, seen: validity ?? "no time that can be read",
                wanted: "valid at \(Date(timeIntervalSince1970: TimeInterval(time)).formatted(.iso8601))")
        case .unknownRoot, .selfSigned, .incompleteChain:
            let reason = reason == .unknownRoot && certificate == server ? .incompleteChain : reason
            return TrustProblem(
                reason: reason, certificate: server, seen: "issued by \(certificate.issuer)", wanted: wantedAnchors)
        case .hostMismatch:
            return TrustProblem(
                reason: reason, certificate: server, seen: refusal.text, wanted: Escaped(chain.host).description)
        }
    }

    private func problem(
        _ reason: FatalReason, _ refusal: LibSSL.Refusal, _ server: Certificate
    ) -> TrustProblem<FatalReason> {
        TrustProblem(
            reason: reason, certificate: refusal.certificate ?? server, seen: refusal.text,
            wanted: "a certificate that RFC 5280 allows here")
    }

    private var wantedAnchors: String {
        switch trust.anchors {
        case .system: "a root of the system"
        case .only(let anchors): "one of \(anchors.count) given: \(subjects(anchors))"
        case .additional(let anchors): "a root of the system, or one of \(anchors.count) given: \(subjects(anchors))"
        case .pinned: "one that is pinned"
        }
    }

    private func subjects(_ anchors: [Certificate]) -> String {
        anchors.prefix(4).map { "\($0.subject), SHA-256 \(Hexadecimal.text($0.sha256))" }.joined(separator: "; ")
            + (anchors.count > 4 ? "; …" : "")
    }
}

extension Array where Element: Hashable {
    /// The first of each.
    fileprivate var unique: [Element] {
        var met: Set<Element> = []
        return filter { met.insert($0).inserted }
    }
}
