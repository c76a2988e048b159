import Foundation
import Testing

@testable import TrustedHTTP

@Suite("Trust: kept in a queue")
struct ServerTrustCodingTests {
    private func trusts() throws -> [ServerTrust] {
        let (server, root) = (try Certificate.named("server"), try Certificate.named("root"))
        let exception = try TrustException(
            host: "example.org", port: 8443, certificate: Hexadecimal.text(server.sha256),
            reasons: [.expired, .hostMismatch])
        return [
            ServerTrust(),
            try ServerTrust(anchors: .only([root, server])),
            try ServerTrust(anchors: .additional([root]), host: .expected("example.org")),
            try ServerTrust(
                anchors: .pinned,
                pins: [.server(.publicKey(of: server), .certificate(root)), .wholeChain(.certificate(server))],
                host: .off, distrusted: [.publicKey(of: root)], exceptions: [exception]),
        ]
    }

    @Test("A decoded trust is the one that was encoded")
    func roundTrip() throws {
        for trust in try trusts() {
            #expect(try JSONDecoder().decode(ServerTrust.self, from: JSONEncoder().encode(trust)) == trust)
        }
        #expect(Set(try trusts()).count == 4)
    }

    @Test(
        "A trust that cannot be built is not decoded",
        arguments: [
            (0, "\"system\"", "\"only\""), (0, "\"system\"", "\"pinned\""), (0, "\"requested\"", "\"off\""),
            (0, "\"requested\"", "\"expected\""), (0, "\"system\"", "\"anybody\""),
            (0, "\"pins\":[]", "\"pins\":[{\"place\":\"server\",\"pins\":[]}]"),
            (1, "\"certificates\":[\"MII", "\"certificates\":[\"MIJ"), (3, "\"sha256\":\"", "\"sha256\":\"00"),
            (3, "8443", "0"), (3, "\"expired\"", "\"pin-mismatch\""),
        ])
    func refused(index: Int, old: String, new: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.withoutEscapingSlashes]
        let text = String(decoding: try encoder.encode(try trusts()[index]), as: UTF8.self)
        #expect(text.contains(old), "\(text)")
        let altered = Data(text.replacingOccurrences(of: old, with: new).utf8)
        #expect(throws: (any Error).self) { try JSONDecoder().decode(ServerTrust.self, from: altered) }
    }
}
