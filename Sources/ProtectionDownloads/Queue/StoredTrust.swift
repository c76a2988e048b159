import FoundationEssentials

/// A ``ServerTrust`` as it is sealed with a request.
///
/// Reading goes through the same initialiser as writing did: what cannot be a trust is none, and never a weaker one.
struct StoredTrust: Codable, Hashable {
    struct Pin: Codable, Hashable {
        let subject, sha256: String

        init(_ pin: CertificatePin) { (subject, sha256) = (pin.subject.rawValue, hexadecimal(pin.sha256)) }

        func pin() throws -> CertificatePin {
            guard let subject = CertificatePin.Subject(rawValue: subject) else { throw Malformed() }
            return try CertificatePin(subject, sha256)
        }
    }

    struct Group: Codable, Hashable {
        let place: String
        let pins: [Pin]
    }

    struct Exception: Codable, Hashable {
        let host: String
        let port: Int
        let certificate: String
        let reasons: [RecoverableReason]
    }

    struct Malformed: Error {}

    /// `system`, `only`, `additional`, `pinned`; and the certificates of the second and third, in DER.
    let anchors: String
    let certificates: [Data]
    let pins: [Group]
    /// `requested`, `off`, or `expected` with a name.
    let hostCheck: String
    let host: String?
    let distrusted: [Pin]
    let exceptions: [Exception]

    init(_ trust: ServerTrust) {
        switch trust.anchors {
        case .system: (anchors, certificates) = ("system", [])
        case .only(let list): (anchors, certificates) = ("only", list.map { Data($0.der) })
        case .additional(let list): (anchors, certificates) = ("additional", list.map { Data($0.der) })
        case .pinned: (anchors, certificates) = ("pinned", [])
        }
        pins = trust.pins.map { Group(place: $0.place.rawValue, pins: $0.pins.map(Pin.init)) }
        switch trust.hostCheck {
        case .requested: (hostCheck, host) = ("requested", nil)
        case .expected(let name): (hostCheck, host) = ("expected", name)
        case .off: (hostCheck, host) = ("off", nil)
        }
        distrusted = trust.distrusted.map(Pin.init)
        exceptions = trust.exceptions.map {
            Exception(
                host: $0.host, port: $0.port, certificate: hexadecimal($0.certificateSHA256), reasons: Array($0.reasons)
            )
        }
    }

    func trust() throws -> ServerTrust {
        let list = try certificates.map { try Certificate(der: Array($0)) }
        let anchors: ServerTrust.Anchors =
            switch anchors {
            case "system": .system
            case "only": .only(list)
            case "additional": .additional(list)
            case "pinned": .pinned
            default: throw Malformed()
            }
        let check: ServerTrust.HostCheck
        switch (hostCheck, host) {
        case ("requested", _): check = .requested
        case ("expected", let name?): check = .expected(name)
        case ("off", _): check = .off
        default: throw Malformed()
        }
        let groups = try pins.map { group in
            guard let place = PinGroup.Place(rawValue: group.place) else { throw Malformed() }
            return PinGroup(place, Set(try group.pins.map { try $0.pin() }))
        }
        let exceptions = try exceptions.map {
            try TrustException(host: $0.host, port: $0.port, certificate: $0.certificate, reasons: Set($0.reasons))
        }
        return try ServerTrust(
            anchors: anchors, pins: groups, host: check, distrusted: Set(try distrusted.map { try $0.pin() }),
            exceptions: Set(exceptions))
    }
}

/// A ``ProtectionSpace`` as it is sealed with a request.
struct StoredSpace: Codable {
    let kind, host: String
    let port: Int
    let realm, method: String?

    init(_ space: ProtectionSpace) {
        (kind, host, port) = (space.kind.rawValue, space.host, space.port)
        (realm, method) = (space.realm, space.method?.rawValue)
    }

    func space() throws -> ProtectionSpace {
        guard let kind = ProtectionSpace.Kind(rawValue: kind) else { throw StoredTrust.Malformed() }
        let way = try method.map { name in
            guard let method = AuthenticationMethod(rawValue: name) else { throw StoredTrust.Malformed() }
            return method
        }
        return ProtectionSpace(kind, host: host, port: port, realm: realm, method: way)
    }
}
