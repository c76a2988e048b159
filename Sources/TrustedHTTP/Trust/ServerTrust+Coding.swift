import FoundationEssentials

/// A ``ServerTrust`` goes into a queue that outlives the process, and comes out as the same, or not at all: whatever cannot be
/// built cannot be decoded either.
extension ServerTrust: Codable {
    public init(from decoder: any Decoder) throws { self = try Form(from: decoder).trust() }
    public func encode(to encoder: any Encoder) throws { try Form(self).encode(to: encoder) }

    /// How it is written down. Its certificates are looked at by ``trust()`` only: a caller that often reads the same form need not read
    /// them again.
    package struct Form: Codable, Hashable, Sendable {
        enum Anchors: String, Codable { case system, only, additional, pinned }
        enum Host: String, Codable { case requested, expected, off }
        let anchors: Anchors
        /// DER; with `only` and `additional`.
        let certificates: [Data]?
        let pins: [PinGroup]
        let host: Host
        /// With `expected`.
        let name: String?
        let distrusted: Set<CertificatePin>
        let exceptions: Set<TrustException>

        package init(_ trust: ServerTrust) {
            (anchors, certificates) =
                switch trust.anchors {
                case .system: (.system, nil)
                case .only(let certificates): (.only, certificates.map { Data($0.der) })
                case .additional(let certificates): (.additional, certificates.map { Data($0.der) })
                case .pinned: (.pinned, nil)
                }
            (host, name) =
                switch trust.hostCheck {
                case .requested: (.requested, nil)
                case .expected(let name): (.expected, name)
                case .off: (.off, nil)
                }
            (pins, distrusted, exceptions) = (trust.pins, trust.distrusted, trust.exceptions)
        }

        /// - Throws: ``TrustError``.
        package func trust() throws(TrustError) -> ServerTrust {
            var list: [Certificate] = []
            for der in certificates ?? [] { list.append(try Certificate(der: Array(der))) }
            let anchors: ServerTrust.Anchors =
                switch anchors {
                case .system: .system
                case .only: .only(list)
                case .additional: .additional(list)
                case .pinned: .pinned
                }
            let host: HostCheck =
                switch host {
                case .requested: .requested
                case .expected: .expected(name ?? "")
                case .off: .off
                }
            return try ServerTrust(
                anchors: anchors, pins: pins, host: host, distrusted: distrusted, exceptions: exceptions)
        }
    }
}

/// What it is of, and its digest in hexadecimal.
extension CertificatePin: Codable {
    private struct Form: Codable {
        let of: Subject
        let sha256: String
    }

    public init(from decoder: any Decoder) throws {
        let form = try Form(from: decoder)
        try self.init(form.of, form.sha256)
    }

    public func encode(to encoder: any Encoder) throws {
        try Form(of: subject, sha256: Hexadecimal.text(sha256)).encode(to: encoder)
    }
}

/// As ``TrustExceptionStore`` keeps it.
extension TrustException: Codable {
    private struct Form: Codable {
        let host: String
        let port: Int
        let certificate: String
        let reasons: [RecoverableReason]
    }

    public init(from decoder: any Decoder) throws {
        let form = try Form(from: decoder)
        try self.init(host: form.host, port: form.port, certificate: form.certificate, reasons: Set(form.reasons))
    }

    public func encode(to encoder: any Encoder) throws {
        let form = Form(
            host: host, port: port, certificate: Hexadecimal.text(certificateSHA256),
            reasons: reasons.sorted { $0.rawValue < $1.rawValue })
        try form.encode(to: encoder)
    }
}
