import TestCertificates
import Testing

@testable import TrustedHTTP

@Suite("Trust: pins")
struct TrustPinTests {
    private func certificate(_ name: String) throws -> CertificatePin { .certificate(try .named(name)) }
    private func key(_ name: String) throws -> CertificatePin { .publicKey(of: try .named(name)) }
    private let chain = { () throws -> PresentedChain in try presented("server", "intermediate") }

    private func verdict(_ pins: PinGroup..., chain: PresentedChain? = nil) throws -> TrustVerdict {
        try ServerTrust.root(pins: pins).verdict(try chain ?? self.chain())
    }

    @Test("The server's own certificate or key")
    func server() throws {
        for name in ["server"] {
            #expect(try verdict(.server(certificate(name))) == .explicitlyTrusted)
            #expect(try verdict(.server(key(name))) == .explicitlyTrusted)
        }
        for name in ["backup", "intermediate", "root"] {
            #expect(try verdict(.server(certificate(name))).fatalReasons == [.pinMismatch])
            #expect(try verdict(.server(key(name))).fatalReasons == [.pinMismatch])
        }
    }

    @Test("A key stays pinned when its certificate is renewed, a certificate does not; a backup takes over")
    func renewal() throws {
        let renewed = try presented("renewed", "intermediate")
        #expect(try verdict(.server(key("server")), chain: renewed) == .explicitlyTrusted)
        #expect(try verdict(.server(certificate("server")), chain: renewed).fatalReasons == [.pinMismatch])
        let backup = try presented("backup", "intermediate")
        #expect(try verdict(.server(key("server")), chain: backup).fatalReasons == [.pinMismatch])
        #expect(try verdict(.server(key("server"), key("backup")), chain: backup) == .explicitlyTrusted)
    }

    @Test("Any of the verified chain: the server, the intermediate, and the anchor that was not presented")
    func anyInChain() throws {
        for name in ["server", "intermediate", "root"] {
            #expect(try verdict(.anyInChain(certificate(name))) == .explicitlyTrusted)
            #expect(try verdict(.anyInChain(key(name))) == .explicitlyTrusted)
        }
        #expect(try verdict(.anyInChain(key("other-root"))).fatalReasons == [.pinMismatch])
    }

    @Test("A certificate that is only presented beside the chain matches no pin")
    func presentedOnly() throws {
        // An attacker with a certificate of any authority that is trusted puts the pinned one beside it.
        for name in ["backup", "other-root", "self-signed"] {
            let chain = try presented("server", "intermediate", name)
            #expect(try verdict(.anyInChain(certificate(name)), chain: chain).fatalReasons == [.pinMismatch])
            #expect(try verdict(.anyInChain(key(name)), chain: chain).fatalReasons == [.pinMismatch])
            #expect(try verdict(.server(key(name)), chain: chain).fatalReasons == [.pinMismatch])
        }
        // The same name and key, vouched for by somebody else: it is not on the way that was verified.
        let crossed = try presented("server", "intermediate", "cross")
        #expect(try verdict(.anyInChain(certificate("cross")), chain: crossed).fatalReasons == [.pinMismatch])
        #expect(try verdict(.anyInChain(certificate("intermediate")), chain: crossed) == .explicitlyTrusted)
    }

    @Test("A pinned authority in a chain that it did not sign is no match")
    func notSignedByPinned() throws {
        // Both are of the name that they should be, but the key of "cross" is not the one of the pin's owner alone:
        // the leaf's signature is altered, so the chain up to the pin does not hold.
        var der = TestCertificates.certificate("server")
        der[der.count - 1] ^= 1
        let chain = PresentedChain(
            certificates: [try Certificate(der: der), try .named("intermediate")], host: "localhost", port: 443)
        let verdict = try verdict(.anyInChain(certificate("intermediate")), chain: chain)
        #expect(verdict.fatalReasons?.contains(.badSignature) == true)
    }

    @Test("The whole chain: every certificate that is presented")
    func wholeChain() throws {
        let both = PinGroup.wholeChain(try certificate("server"), try key("intermediate"))
        #expect(try verdict(both) == .explicitlyTrusted)
        #expect(try verdict(both, chain: presented("server", "intermediate", "root")).fatalReasons == [.pinMismatch])
        #expect(try verdict(.wholeChain(certificate("server"))).fatalReasons == [.pinMismatch])
        #expect(try verdict(both, chain: presented("backup", "intermediate")).fatalReasons == [.pinMismatch])
    }

    @Test("Every group must match")
    func groups() throws {
        let (server, authority) = (PinGroup.server(try key("server")), PinGroup.anyInChain(try key("root")))
        #expect(try verdict(server, authority) == .explicitlyTrusted)
        #expect(try verdict(server, .anyInChain(key("other-root"))).fatalReasons == [.pinMismatch])
        #expect(try verdict(.server(key("backup")), authority).fatalReasons == [.pinMismatch])
    }

    @Test("A pin does not replace an anchor, unless the caller says so")
    func pinsAndAnchors() throws {
        let device = try presented("self-signed")
        for pin in [try certificate("self-signed"), try key("self-signed")] {
            #expect(try verdict(.server(pin), chain: device).recoverableReasons == [.selfSigned])
            let trust = try ServerTrust(anchors: .pinned, pins: [.server(pin)])
            #expect(trust.verdict(device) == .explicitlyTrusted)
            #expect(trust.verdict(try presented("server", "intermediate")).fatalReasons == [.pinMismatch])
        }
        // An authority that is pinned as a whole vouches if it is presented and has signed.
        let authority = try ServerTrust(anchors: .pinned, pins: [.anyInChain(certificate("intermediate"))])
        #expect(authority.verdict(try chain()) == .explicitlyTrusted)
        #expect(authority.verdict(try presented("self-signed", "intermediate")).fatalReasons == [.pinMismatch])
        #expect(authority.verdict(try presented("server")).fatalReasons == [.pinMismatch])
        let whole = try ServerTrust(
            anchors: .pinned, pins: [.wholeChain(certificate("server"), certificate("intermediate"))])
        #expect(whole.verdict(try chain()) == .explicitlyTrusted)
    }

    @Test("Pins in place of anchors leave the time and the host to be checked")
    func pinnedButExpired() throws {
        let expired = try ServerTrust(anchors: .pinned, pins: [.server(key("expired"))])
        #expect(expired.verdict(try presented("expired")).recoverableReasons == [.expired])
        let other = try ServerTrust(anchors: .pinned, pins: [.server(key("nameless"))])
        #expect(other.verdict(try presented("nameless")).recoverableReasons == [.hostMismatch])
        let unchecked = try ServerTrust(anchors: .pinned, pins: [.server(key("nameless"))], host: .off)
        #expect(unchecked.verdict(try presented("nameless")) == .explicitlyTrusted)
    }

    @Test("A trust without usable anchors, pins or host name cannot be built")
    func impossible() throws {
        let server = PinGroup.server(try key("server"))
        #expect(throws: TrustError.noAnchors) { try ServerTrust(anchors: .only([])) }
        #expect(throws: TrustError.noPins) { try ServerTrust(pins: [server, PinGroup(.server, [])]) }
        #expect(throws: TrustError.hostCheckNeedsPins) { try ServerTrust(host: .off) }
        // A public authority issues for anybody: a pin of it does not say which server is meant.
        let authority = PinGroup.anyInChain(try certificate("root"))
        #expect(throws: TrustError.hostCheckNeedsPins) { try ServerTrust(pins: [authority], host: .off) }
        #expect(throws: TrustError.hostCheckNeedsPins) {
            try ServerTrust(anchors: .additional([.named("root")]), pins: [authority], host: .off)
        }
        for anchors in [ServerTrust.Anchors.only([try .named("root")]), .pinned] {
            #expect(throws: Never.self) { try ServerTrust(anchors: anchors, pins: [authority], host: .off) }
        }
        #expect(throws: Never.self) { try ServerTrust(pins: [authority, server], host: .off) }
        #expect(throws: TrustError.pinsVouchForNobody) { try ServerTrust(anchors: .pinned) }
        // Anybody can write a certificate around the key of an authority, without its constraints.
        #expect(throws: TrustError.pinsVouchForNobody) {
            try ServerTrust(anchors: .pinned, pins: [.anyInChain(key("root"))])
        }
        for name in ["", ".example.org", "*.example.org", "example.org:443", "a b", "exämple.org", "a..b", "a\0b"] {
            #expect(throws: TrustError.malformedHostName(name)) { try ServerTrust(host: .expected(name)) }
        }
    }

    @Test("A mismatch says what was seen and what was wanted")
    func message() throws {
        let text = try verdict(.server(key("backup"))).description
        let (seen, wanted) = (try key("server").description, try key("backup").description)
        #expect(text.hasPrefix("pin-mismatch: seen \(seen); wanted one of \(wanted) as the server's; in CN=server"))
        #expect(text.contains("localhost, 127.0.0.1, ::1") && text.contains("SHA-256"))
    }
}
