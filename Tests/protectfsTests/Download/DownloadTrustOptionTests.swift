import FaultServer
import Foundation
import Testing

@testable import protectfs_download

@Suite("download: which servers, and which bytes")
struct DownloadTrustOptionTests {
    private let bed: DownloadSandbox

    init() throws {
        bed = try DownloadSandbox()
        try bed.server.answer("/a", Answer(length: 1000))
    }

    @Test("--anchor: an authority of one's own beside the system's")
    func anchor() throws {
        let url = bed.server.url("/a").absoluteString
        #expect(try bed.download("get", url, "--anchor", "authority.pem").status == 0)
    }

    @Test("--expected-host: the certificate is for that name, and no request goes to a server with another")
    func expectedHost() throws {
        _ = try bed.server.makeCertificate("named", ["issuer": "authority", "names": ["downloads.test"]])
        let port = try bed.server.listen("named", chain: ["named"])
        let words = ["download", "get", "https://localhost:\(port)/a", "--only-anchor", "authority.pem"]
        #expect(try bed.sandbox.run(words).status == 76)
        #expect(try bed.sandbox.run(words + ["--expected-host", "other.test"]).status != 0)
        #expect(try bed.server.received().isEmpty)
        for id in try bed.list().compactMap({ $0["id"] as? String }) { try bed.sandbox.run("download", "cancel", id) }
        #expect(try bed.sandbox.run(words + ["--expected-host", "downloads.test"]).status == 0)
    }

    @Test("--hmac, under a key that was added: right, wrong, unknown, retired; a key is never replaced, nor too short")
    func integrityKeys() throws {
        let text = String(repeating: "key ", count: 8)
        let key = try IntegrityKey(
            id: "k:1", SecretBytes(byteCount: text.utf8.count) { $0.copyBytes(from: text.utf8) })
        let tag = try key.tag(of: Answer.pattern(0..<1000)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
            .joined()
        let zeros = String(repeating: "0", count: 64)
        #expect(try bed.get("/a", "--hmac", "k:1:\(tag)").status == 78)
        try bed.sandbox.put(text, at: "key")
        #expect(try bed.download("key", "add", "k:1", "--key-file", "key").status == 0)
        #expect(try bed.download("key", "add", "k:1", "--key-file", "key").status == 73)
        #expect(try bed.get("/a", "--hmac", "k:1:\(zeros)").status == 65)
        for id in try bed.list().compactMap({ $0["id"] as? String }) { try bed.sandbox.run("download", "cancel", id) }
        let done = try bed.get("/a", "--hmac", "k:1:\(tag)")
        #expect(done.status == 0, "\(done.errors)")

        #expect(try bed.download("key", "list").text == "accepted  k:1\n")
        #expect(try bed.download("key", "retire", "k:1").status == 0)
        #expect(try bed.download("key", "list", "--json").text.contains("\"isRetired\": true"))
        #expect(try bed.get("/a", "-o", "b", "--hmac", "k:1:\(tag)").status == 78)
        #expect(try bed.download("key", "retire", "none").status == 78)

        let short = try bed.sandbox.shell("printf %s short | \"$PROTECTFS\" download key add k2 --key-fd 0")
        #expect(short.status == 64 && short.errors.contains("32 are needed"), "\(short.errors)")
        let fromDescriptor = try bed.sandbox.shell("printf '%032d' 0 | \"$PROTECTFS\" download key add k2 --key-fd 0")
        #expect(fromDescriptor.status == 0, "\(fromDescriptor.errors)")
        #expect(try bed.download("key", "add", "k3").status == 64)
        #expect(try bed.download("key", "add", "k3", "--key-file", "missing").status == 66)
    }
}
