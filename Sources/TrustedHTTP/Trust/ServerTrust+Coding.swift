import FoundationEssentials

/// A ``ServerTrust`` goes into a queue that outlives the process, and comes out as the same, or not at all: whatever cannot be
/// built cannot be decoded either.
extension ServerTrust: Codable {
    private struct Form: Codable {
        enum Anchors: String, Codable { case system, only, additional, pinned }
        enum Host: String, Codable { case requested, expected, off }
        let anchors: Anchors
        let certificates: [Certificate]?
        let pins: [PinGroup]
        let host: Host
        let name: String?
        let distrusted: [CertificatePin]
        let exceptions: [TrustException]
    }

    public init(from decoder: any Decoder) throws {
        let form = try Form(from: decoder)
        let anchors: Anchors =
            switch form.anchors {
            case .system: .system
            case .only: .only(form.certificates ?? [])
            case .additional: .additional(form.certificates ?? [])
            case .pinned: .pinned
            }
        let host: HostCheck =
            switch form.host {
            case .requested: .requested
            case .expected: .expected(form.name ?? "")
            case .off: .off
            }
        try self.init(
            anchors: anchors, pins: form.pins, host: host, distrusted: Set(form.distrusted),
            exceptions: Set(form.exceptions))
    }

    public func encode(to encoder: any Encoder) throws {
        let (kind, certificates): (Form.Anchors, [Certificate]?) =
            switch anchors {
            case .system: (.system, nil)
            case .only(let certificates): (.only, certificates)
            case .additional(let certificates): (.additional, certificates)
            case .pinned: (.pinned, nil)
            }
        let (host, name): (Form.Host, String?) =
            switch hostCheck {
            case .requested: (.requested, nil)
            case .expected(let name): (.expected, name)
            case .off: (.off, nil)
            }
        let form = Form(
            anchors: kind, certificates: certificates, pins: pins, host: host, name: name,
            distrusted: Array(distrusted), exceptions: Array(exceptions))
        try form.encode(to: encoder)
    }
}

/// Its DER.
extension Certificate: Codable {
    public init(from decoder: any Decoder) throws {
        try self.init(der: Array(decoder.singleValueContainer().decode(Data.self)))
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(Data(der))
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
