import FaultServer
import Foundation
import ProtectionKeys
import TestCertificates
import Testing

@testable import TrustedHTTP

/// Whom requests go to, over real connections: the server's log says whether a byte of one has arrived.
@Suite("Trust, live")
struct LiveTrustTests {
    let server: FaultServer
    let client = HTTPClient()

    init() throws {
        server = try FaultServer()
        try server.answer("/", Answer(status: 200, "inside"))
    }

    /// Listens with these certificates, the server's own first.
    private func listen(_ names: [String], clients: String? = nil, atMost: String? = nil) throws -> Int {
        for name in names + [clients].compactMap({ $0 }) {
            try Data(TestCertificates.certificatePEM(name).utf8)
                .write(to: URL(fileURLWithPath: "\(server.directory)/\(name).pem"))
            try Data(TestCertificates.keyPEM(name).utf8)
                .write(to: URL(fileURLWithPath: "\(server.directory)/\(name).key"))
        }
        return try server.listen(names.joined(), chain: names, clientAuthority: clients, atMost: atMost)
    }

    private func request(_ port: Int, _ trust: ServerTrust, host: String = "localhost") -> HTTPRequest {
        var request = HTTPRequest(server.url("/", host: host, port: port))
        request.trust = trust
        return request
    }

    private func expectTrusted(_ request: HTTPRequest) async throws {
        #expect(try await client.send(request).body == Array("inside".utf8))
    }

    /// - Returns: why not. The server has seen a handshake fail and not one byte of HTTP.
    @discardableResult
    private func expectRefused(_ request: HTTPRequest) async throws -> TrustVerdict? {
        let before = try server.received().count
        let failure = try await client.failure(request)
        #expect(try server.received().count == before && !failure.isTransient)
        guard case .serverNotTrusted(let verdict, let chain) = failure else {
            Issue.record("\(failure)")
            return nil
        }
        #expect(!verdict.allowsConnection && chain.host == request.url.host() && chain.port == request.url.port)
        return verdict
    }

    private func pin(_ name: String) throws -> CertificatePin { .certificate(try .named(name)) }
    private func key(_ name: String) throws -> CertificatePin { .publicKey(of: try .named(name)) }

    @Test("Anchors")
    func anchors() async throws {
        let good = try listen(["server", "intermediate"])
        try await expectTrusted(request(good, .root()))
        try await expectTrusted(request(good, ServerTrust(anchors: .additional([.named("root")]))))
        try await expectTrusted(request(good, .root("intermediate")))
        #expect(try await expectRefused(request(good, .root("other-root")))?.recoverableReasons == [.unknownRoot])
        #expect(try await expectRefused(request(good, ServerTrust()))?.recoverableReasons == [.unknownRoot])
    }

    @Test("Self-signed, with and without an anchor")
    func selfSigned() async throws {
        let port = try listen(["self-signed"])
        try await expectTrusted(request(port, .root("self-signed")))
        #expect(try await expectRefused(request(port, .root()))?.recoverableReasons == [.selfSigned])
    }

    @Test(
        "A faulty certificate is refused with its reason",
        arguments: [
            (["expired", "intermediate"], "expired"), (["not-yet-valid", "intermediate"], "not-yet-valid"),
            (["for-others", "intermediate"], "host-mismatch"),
            (["common-name-only", "intermediate"], "host-mismatch"),
            (["server"], "incomplete-chain"), (["under-no-authority", "no-authority"], "not-an-authority"),
            (["client", "intermediate"], "not-for-servers"), (["weak-key", "intermediate"], "weak-key"),
        ])
    func faults(chain: [String], reason: String) async throws {
        let verdict = try await expectRefused(request(listen(chain), .root()))
        #expect(verdict?.description.hasPrefix(reason) == true, "\(String(describing: verdict))")
    }

    @Test("The host: another name for the same server, an address, and the name that is expected instead")
    func hosts() async throws {
        let port = try listen(["address-only", "intermediate"])
        #expect(try await expectRefused(request(port, .root()))?.recoverableReasons == [.hostMismatch])
        try await expectTrusted(request(port, .root(), host: "127.0.0.1"))
        let others = try listen(["for-others", "intermediate"])
        try await expectTrusted(request(others, .root(host: .expected("other.example.org"))))
        try await expectTrusted(request(others, .root(pins: [.server(key("for-others"))], host: .off)))
        try await expectRefused(request(others, .root(pins: [.server(key("server"))], host: .off)))
    }

    @Test("Pins: of the server, of any of the chain, of the whole chain, of keys, with backups")
    func pins() async throws {
        let port = try listen(["server", "intermediate"])
        for group in [
            PinGroup.server(try pin("server")), .server(try key("server")),
            .server(try key("backup"), try key("server")),
            .anyInChain(try pin("intermediate")), .anyInChain(try key("root")),
            .wholeChain(try pin("server"), try pin("intermediate")),
        ] { try await expectTrusted(request(port, .root(pins: [group]))) }
        for group in [
            PinGroup.server(try pin("backup")), .server(try key("backup")), .server(try key("intermediate")),
            .anyInChain(try pin("other-root")), .wholeChain(try pin("server")),
        ] {
            #expect(try await expectRefused(request(port, .root(pins: [group])))?.fatalReasons == [.pinMismatch])
        }
    }

    @Test("An exception is for one reason of one certificate at one port")
    func exceptions() async throws {
        let port = try listen(["expired-and-for-others", "intermediate"])
        let certificate = TestCertificates.certificate("expired-and-for-others")
        let hash = try Certificate(der: certificate).sha256.map { String($0 < 16 ? "0" : "") + String($0, radix: 16) }
            .joined()
        func exception(_ reasons: Set<RecoverableReason>, port: Int) throws -> TrustException {
            try TrustException(host: "localhost", port: port, certificate: hash, reasons: reasons)
        }
        try await expectRefused(request(port, .root(exceptions: [exception([.expired], port: port)])))
        try await expectRefused(
            request(port, .root(exceptions: [exception([.expired, .hostMismatch], port: port + 1)])))
        try await expectTrusted(request(port, .root(exceptions: [exception([.expired, .hostMismatch], port: port)])))
    }

    @Test("A connection that was made under one trust serves no other one")
    func connectionsAreNotShared() async throws {
        let port = try listen(["server", "intermediate"])
        try await expectTrusted(request(port, .root()))
        try await expectRefused(request(port, .root("other-root")))
        try await expectRefused(request(port, .root(pins: [.server(key("backup"))])))
        try await expectTrusted(request(port, .root()))
    }

    @Test("TLS 1.2 is enough, TLS 1.1 is not", arguments: ["1.2", "1.1"])
    func versions(version: String) async throws {
        let port = try listen(["server", "intermediate"], atMost: version)
        guard version == "1.1" else { return try await expectTrusted(request(port, .root())) }
        guard case .tlsFailed = try await client.failure(request(port, .root())) else {
            Issue.record("no failure of TLS")
            return
        }
        #expect(try server.received().isEmpty)
    }

    // MARK: client certificates

    private func identity(_ name: String) throws -> ClientIdentity {
        let passphrase: SecretBytes? = SecretBytes(byteCount: 13) { slot in slot.copyBytes(from: "correct horse".utf8) }
        return try ClientIdentity(pkcs12: TestCertificates.identity(name), passphrase: passphrase)
    }

    @Test("A client certificate: right, missing, of another authority", arguments: ["1.2", "1.3"])
    func clientCertificates(version: String) async throws {
        let port = try listen(["server", "intermediate"], clients: "root", atMost: version == "1.2" ? "1.2" : nil)
        var request = try request(port, .root())
        guard case .clientCertificateRequired = try await client.failure(request) else {
            Issue.record("not required")
            return
        }
        request.identity = try identity("other-client")
        guard case .clientCertificateRefused = try await client.failure(request) else {
            Issue.record("not refused")
            return
        }
        #expect(try server.received().isEmpty || version == "1.3")  // there a request may be on its way already
        request.identity = try identity("client")
        try await expectTrusted(request)
        #expect(try server.requests().last?.clientSubject == "commonName=client")
    }

    @Test(
        "A connection that is lost is no word on the client certificate: it can be shown again",
        arguments: ["1.2", "1.3"])
    func lostIsNotRefused(version: String) async throws {
        let port = try listen(["server", "intermediate"], clients: "root", atMost: version == "1.2" ? "1.2" : nil)
        try server.answer(
            "/", Answer(length: 10).with(\.cutHeadAfter, 0).with(\.end, .reset), Answer(status: 200, "inside"))
        let space = ProtectionSpace(host: "localhost", port: port, method: .clientCertificate)
        let store = SessionCredentials()
        await store.keep(Credential(.identity(try identity("client"))), for: space)
        var request = try request(port, .root())
        request.authentication = HTTPAuthentication([space], credentials: store)
        guard case .connectionLost = try await client.failure(request) else {
            Issue.record("not lost")
            return
        }
        try await expectTrusted(request)
    }

    @Test("The space's own client certificate, and one that a handler gives")
    func clientCertificatesOfSpaces() async throws {
        let port = try listen(["server", "intermediate"], clients: "root")
        let space = ProtectionSpace(host: "localhost", port: port, method: .clientCertificate)
        let store = SessionCredentials()
        await store.keep(Credential(.identity(try identity("client"))), for: space)
        var request = try request(port, .root())
        request.authentication = HTTPAuthentication([space], credentials: store)
        try await expectTrusted(request)

        struct Giving: AuthenticationHandler {
            let identity: ClientIdentity
            func disposition(of challenge: AuthenticationChallenge) -> AuthenticationDisposition {
                challenge.previousFailureCount == 0 ? .use(Credential(.identity(identity))) : .cancel
            }
        }
        request.authentication = HTTPAuthentication([space], handler: Giving(identity: try identity("client")))
        try await expectTrusted(request)
        request.authentication = HTTPAuthentication([space], handler: Giving(identity: try identity("other-client")))
        guard case .authenticationCancelled = try await client.failure(request) else {
            Issue.record("not cancelled")
            return
        }
    }

    @Test("It is shown to the server that it is for, and to no other one by a redirect")
    func identityOfOtherServers() async throws {
        let port = try listen(["server", "intermediate"], clients: "root")
        let first = try listen(["direct"])
        try server.answer("/", .redirect(to: server.url("/", port: port).absoluteString))
        var request = try request(first, .root())
        request.identity = try identity("client")
        guard case .clientCertificateRequired = try await client.failure(request) else {
            Issue.record("shown")
            return
        }
    }

    // MARK: looking only

    @Test("A probe shows the chain and the verdict, and sends nothing", arguments: [true, false])
    func probe(trusted: Bool) async throws {
        let port = try listen(["server", "intermediate"], clients: "root")
        let result = try await client.probe(server.url("/", port: port), trust: trusted ? .root() : ServerTrust())
        #expect(try result.chain.certificates == [.named("server"), .named("intermediate")])
        #expect(result.verdict.allowsConnection == trusted && result.asksForIdentity == trusted)
        #expect(result.version == (trusted ? "TLSv1.3" : nil))
        #expect(try server.received().isEmpty)
    }

    @Test("A probe makes a connection of its own, and leaves none")
    func probeBesideRequests() async throws {
        let port = try listen(["server", "intermediate"])
        try await expectTrusted(request(port, .root()))
        #expect(try await client.probe(server.url("/", port: port), trust: .root()).verdict == .trusted)
        try await expectTrusted(request(port, .root()))
        #expect(try server.accepted() == 2 && server.requests().count == 2)
    }

    @Test("A probe of nobody, and of a server without TLS")
    func probeOfNobody() async throws {
        await #expect(throws: HTTPError.self) {
            try await client.probe(server.url("/", port: server.plainPort), timeout: .seconds(2))
        }
        await #expect(throws: HTTPError.self) { try await client.probe(server.url("/", scheme: "http")) }
    }
}
