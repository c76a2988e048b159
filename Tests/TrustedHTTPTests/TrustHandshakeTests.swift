import CLibSSL
import ProtectionKeys
import TestCertificates
import Testing

@testable import TrustedHTTP

@Suite("Trust: the handshake")
struct TrustHandshakeTests {
    private static let request = "GET /secret HTTP/1.1\r\n\r\n"

    private func handshake(
        _ trust: ServerTrust, host: String = "localhost", identity: ClientIdentity? = nil
    ) -> TLSHandshake {
        TLSHandshake(trust: trust, host: host, port: 443, identity: identity, now: { someday })
    }

    @Test(
        "A trusted server gets the request, and the chain that it presented is known",
        arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func trusted(version: Int32) throws {
        let handshake = handshake(try .root())
        let pair = try TLSPair(server: ["server", "intermediate"], handshake: handshake, version: version)
        pair.run(sending: Self.request)
        #expect(String(decoding: pair.received, as: UTF8.self) == Self.request)
        #expect(handshake.verdict == .trusted)
        #expect(handshake.chain == (try presented("server", "intermediate")))
        #expect(pair.verifyResult == Int(X509_V_OK))
        #expect(!handshake.askedForIdentity)
        // A server presents nothing when a session is resumed.
        #expect(TLSPair.sessionsToResume.load(ordering: .relaxed) == 0)
    }

    struct Refusal: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let server: [String]
        var host = "localhost"
        var trust: @Sendable () throws -> ServerTrust = { try .root() }
    }

    private static let refusals = [
        Refusal(testDescription: "wrong authority", server: ["of-other-root", "other-root"]),
        Refusal(testDescription: "self-signed", server: ["self-signed"]),
        Refusal(testDescription: "expired", server: ["expired", "intermediate"]),
        Refusal(testDescription: "wrong host", server: ["server", "intermediate"], host: "example.org"),
        Refusal(testDescription: "incomplete", server: ["server"]),
        Refusal(testDescription: "no server", server: ["client", "intermediate"]),
        Refusal(testDescription: "weak key", server: ["weak-key", "intermediate"]),
        Refusal(testDescription: "weak signature", server: ["weak-signature", "rsa-authority"]),
        Refusal(
            testDescription: "pin of another key", server: ["server", "intermediate"],
            trust: { try .root(pins: [.server(.publicKey(of: .named("backup")))]) }),
        Refusal(
            testDescription: "distrusted", server: ["server", "intermediate"],
            trust: {
                try ServerTrust(anchors: .only([.named("root")]), distrusted: [.certificate(.named("intermediate"))])
            }),
    ]

    @Test(
        "To a server that is not trusted not one byte of a request goes, however careless the client",
        arguments: refusals, [TLS1_2_VERSION, TLS1_3_VERSION])
    func refused(refusal: Refusal, version: Int32) throws {
        let handshake = handshake(try refusal.trust(), host: refusal.host)
        let pair = try TLSPair(server: refusal.server, handshake: handshake, version: version)
        pair.run(sending: Self.request)
        #expect(pair.clientHasFailed && !pair.clientIsDone && !pair.serverIsDone)
        #expect(pair.received == [])
        #expect(handshake.verdict?.allowsConnection == false)
        #expect(handshake.chain?.certificates.count == refusal.server.count)
        #expect(pair.verifyResult != Int(X509_V_OK))
    }

    @Test("Older protocols than TLS 1.2 are not spoken")
    func oldProtocol() throws {
        let handshake = handshake(try .root())
        let pair = try TLSPair(server: ["server", "intermediate"], handshake: handshake, version: TLS1_1_VERSION)
        pair.run(sending: Self.request)
        #expect(pair.received == [] && !pair.clientIsDone && handshake.verdict == nil)
    }

    @Test(
        "The client shows its identity when it is asked, and after the server's was accepted",
        arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func identity(version: Int32) throws {
        let identity = try ClientIdentity.ofTests("client")
        let good = handshake(try .root(), identity: identity)
        let pair = try TLSPair(
            server: ["server", "intermediate"], handshake: good, asksForIdentity: true, version: version)
        pair.run(sending: Self.request)
        #expect(String(decoding: pair.received, as: UTF8.self) == Self.request)
        #expect(pair.identityShown == identity.certificate && good.askedForIdentity)

        let bad = handshake(try .root("other-root"), identity: identity)
        let refusing = try TLSPair(
            server: ["server", "intermediate"], handshake: bad, asksForIdentity: true, version: version)
        refusing.run(sending: Self.request)
        #expect(refusing.identityShown == nil && refusing.received == [] && !bad.askedForIdentity)
    }

    @Test("A server that does not ask is shown no identity; that it asked is known without one")
    func identityUnasked() throws {
        let silent = handshake(try .root(), identity: try .ofTests("client"))
        let pair = try TLSPair(server: ["server", "intermediate"], handshake: silent)
        pair.run(sending: Self.request)
        #expect(pair.identityShown == nil && !silent.askedForIdentity && !pair.received.isEmpty)

        let without = handshake(try .root())
        let asking = try TLSPair(server: ["server", "intermediate"], handshake: without, asksForIdentity: true)
        asking.run(sending: Self.request)
        #expect(without.askedForIdentity && asking.received == [])
    }

    @Test("A certificate that cannot be read, or none, ends the handshake")
    func unreadable() throws {
        let good = TestCertificates.certificate("server")
        for presented in [[], [[]], [good, [0x30]], [Array(good.dropLast())]] {
            let handshake = handshake(try .root("server"))
            #expect(!handshake.judge(presented))
            guard case .evaluationFailed = handshake.verdict else {
                Issue.record("\(String(describing: handshake.verdict))")
                continue
            }
        }
    }

    @Test("The TLS context keeps its handshake, and lets it go")
    func lifetime() throws {
        weak var kept: TLSHandshake?
        let context = try #require(SSL_CTX_new(TLS_client_method()))
        do {
            let handshake = handshake(try .root())
            kept = handshake
            try LibSSL.prepare(context, for: handshake)
        }
        #expect(kept != nil)
        SSL_CTX_free(context)
        #expect(kept == nil)
    }
}

extension ClientIdentity {
    static func ofTests(_ name: String) throws -> ClientIdentity {
        try ClientIdentity(pkcs12: TestCertificates.identity(name), passphrase: SecretBytes("correct horse"))
    }
}

extension SecretBytes {
    init(_ text: StaticString) {
        self.init(copyOf: UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }
}
