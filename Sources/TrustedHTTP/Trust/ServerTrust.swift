/// Whom a connection may be made to: which certificates vouch for a server, and what else must be so.
///
/// One value holds for a whole connection; nothing is ever sent over a connection that was made under another one.
///
/// The parts are combined like this, and every part must agree:
///
/// | part | says | when it does not agree |
/// |---|---|---|
/// | ``anchors`` | whose certificates vouch for others: a chain must lead to one of them | `unknownRoot`, `selfSigned`, `incompleteChain`: recoverable |
/// | ``pins`` | of *every* group at least one pin must match | `pinMismatch`: fatal |
/// | ``hostCheck`` | which host the server's certificate must be for | `hostMismatch`: recoverable |
/// | ``distrusted`` | no certificate that was presented, or that vouches, matches one of these | denied |
/// | ``exceptions`` | recoverable problems that the user has accepted for just this host, port and certificate | |
///
/// Time, signatures, purpose, key sizes and constraints are always checked, whatever the anchors are.
///
/// | anchors | pins | a server with the pinned key, and… | verdict |
/// |---|---|---|---|
/// | `.system` | none | a chain to a system root | trusted |
/// | `.system` | of a key | a chain to a system root | explicitly trusted |
/// | `.system` | of the server's certificate | that certificate, self-signed | recoverable: `selfSigned` |
/// | `.only([it])` | none or any that match | a certificate that is itself the anchor | trusted; explicitly trusted with pins |
/// | `.pinned` | of the server's certificate or key | that certificate, by any issuer | explicitly trusted |
/// | `.pinned` | of a whole certificate of the chain | a chain to that one, which was presented | explicitly trusted |
///
/// So a pin narrows, as in RFC 7469 §2.6, OkHttp and curl's `--pinnedpubkey`; only ``Anchors/pinned`` lets it stand in for
/// anchors, because then the caller has said so. Even then certificates are checked for their time and their host.
public struct ServerTrust: Hashable, Sendable {
    /// Whose certificates vouch for others.
    public enum Anchors: Hashable, Sendable {
        /// Those that the system's administrator trusts. The environment (`SSL_CERT_FILE`) has no say.
        case system
        /// These and no others: an authority of one's own, an intermediate one, or a server's self-signed certificate.
        case only([Certificate])
        /// Those of the system, and these.
        case additional([Certificate])
        /// None: the pinned certificates of those that the server presents vouch, for themselves and for what they have issued.
        case pinned
    }

    /// Which host the server's certificate must be for.
    public enum HostCheck: Hashable, Sendable {
        /// The one that the connection is made to.
        case requested
        /// This name or address instead: a server that is reached by a number, or through a tunnel.
        case expected(String)
        /// None. Pins must say which server is meant then: of its own certificate or key; or of its authority, if the anchors
        /// are not the system's too. A public authority's certificates are anybody's.
        case off
    }

    /// Which roots vouch for servers.
    public let anchors: Anchors
    /// Each group must match.
    public let pins: [PinGroup]
    /// Whether, and how, the name in the certificate is compared.
    public let hostCheck: HostCheck
    /// Pins of certificates, or of keys, that are refused even if a trusted authority has signed them.
    public let distrusted: Set<CertificatePin>
    /// Problems that are accepted at certain servers.
    public let exceptions: Set<TrustException>

    /// The system's roots, and the host that is asked for.
    public init() { (anchors, pins, hostCheck, distrusted, exceptions) = (.system, [], .requested, [], []) }

    /// - Throws: ``TrustError/noAnchors``, ``TrustError/noPins``, ``TrustError/hostCheckNeedsPins``,
    ///   ``TrustError/pinsVouchForNobody``, ``TrustError/malformedHostName(_:)``.
    public init(
        anchors: Anchors = .system, pins: [PinGroup] = [], host: HostCheck = .requested,
        distrusted: Set<CertificatePin> = [], exceptions: Set<TrustException> = []
    ) throws(TrustError) {
        guard anchors != .only([]) else { throw .noAnchors }
        guard pins.allSatisfy({ !$0.pins.isEmpty }) else { throw .noPins }
        guard anchors != .pinned || pins.contains(where: \.canVouch) else { throw .pinsVouchForNobody }
        switch host {
        case .requested: break
        case .expected(let name): guard HostName(name) != nil else { throw .malformedHostName(name) }
        case .off: guard pins.contains(where: { $0.meansServer(under: anchors) }) else { throw .hostCheckNeedsPins }
        }
        (self.anchors, self.pins, self.distrusted, self.exceptions) = (anchors, pins, distrusted, exceptions)
        hostCheck = host
    }

    /// The same under these exceptions, and no others.
    public func excepting(_ exceptions: Set<TrustException>) -> ServerTrust {
        ServerTrust(self, exceptions: exceptions)
    }

    private init(_ other: ServerTrust, exceptions: Set<TrustException>) {
        (anchors, pins, hostCheck) = (other.anchors, other.pins, other.hostCheck)
        (distrusted, self.exceptions) = (other.distrusted, exceptions)
    }
}

/// Pins of which one must match. The others are backups: of the next key, made before it is needed.
public struct PinGroup: Hashable, Sendable, Codable {
    /// Where a pin must match.
    public enum Place: String, Hashable, Sendable, Codable {
        /// The server's own certificate: the *leaf*.
        case server
        /// Any certificate of the chain that was verified, the anchor included. One that was only presented beside it does not
        /// count: anybody can present it.
        case anyInChain
        /// Every certificate that was presented must match one of the pins.
        case wholeChain
    }

    /// Where in the chain the pins are looked for.
    public let place: Place
    /// The pins; ``place`` says which certificates must match one of them.
    public let pins: Set<CertificatePin>

    /// A group of pins, looked for at that place.
    public init(_ place: Place, _ pins: Set<CertificatePin>) { (self.place, self.pins) = (place, pins) }

    /// One of these is the server's certificate, or its key.
    public static func server(_ pins: CertificatePin...) -> PinGroup { PinGroup(.server, Set(pins)) }
    /// One of these is in the verified chain.
    public static func anyInChain(_ pins: CertificatePin...) -> PinGroup { PinGroup(.anyInChain, Set(pins)) }
    /// Nothing but these is presented.
    public static func wholeChain(_ pins: CertificatePin...) -> PinGroup { PinGroup(.wholeChain, Set(pins)) }

    func matches(presented: [Certificate], verified: [Certificate]) -> Bool {
        switch place {
        case .server: presented.first.map(hasPin) ?? false
        case .anyInChain: verified.contains(where: hasPin)
        case .wholeChain: !presented.isEmpty && presented.allSatisfy(hasPin)
        }
    }

    func hasPin(of certificate: Certificate) -> Bool { pins.contains { $0.matches(certificate) } }

    /// Whether it can stand in for the host check.
    func meansServer(under anchors: ServerTrust.Anchors) -> Bool {
        switch (place, anchors) {
        case (.server, _), (.wholeChain, _), (.anyInChain, .only), (.anyInChain, .pinned): true
        case (.anyInChain, .system), (.anyInChain, .additional): false
        }
    }

    /// Whether it can stand in for anchors. A key of an authority cannot: around it anybody can write a certificate without
    /// the constraints of the real one.
    var canVouch: Bool { place == .server ? !pins.isEmpty : pins.contains { $0.subject == .certificate } }

    /// Those of the presented certificates that vouch under ``ServerTrust/Anchors/pinned``.
    func vouching(of presented: [Certificate]) -> [Certificate] {
        switch place {
        case .server: presented.prefix(1).filter(hasPin)
        case .anyInChain, .wholeChain:
            presented.filter { certificate in
                pins.contains { $0.subject == .certificate && $0.matches(certificate) }
            }
        }
    }
}
