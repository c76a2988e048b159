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
        let tag = Hexadecimal.text(try key.tag(of: Answer.pattern(0..<1000)))
        let zeros = String(repeating: "0", count: 64)
        #expect(try bed.get("/a", "--hmac", "k:1:\(tag)").status == 78)
        try bed.sandbox.put(text, at: "key")
        let add = "\"$PROTECTFS\" download key add k:1 --key-fd 3 3<key"
        #expect(try bed.sandbox.shell(add).status == 0)
        #expect(try bed.sandbox.shell(add).status == 73)
        // The old way, in this release.
        let old = try bed.download("key", "add", "k:1", "--key-file", "key")
        #expect(old.status == 73 && old.errors.contains("use: --key-fd 3 3<FILE"), "\(old.errors)")
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

    @Test("--length, --sha512 and --sha1: right, and wrong")
    func checks() throws {
        for (option, algorithm) in [("--sha512", RunningDigest.Algorithm.sha512), ("--sha1", .sha1)] {
            let right = try digest(algorithm, of: Answer.pattern(0..<1000))
            let wrong = (right.hasPrefix("0") ? "1" : "0") + right.dropFirst()
            #expect(try bed.get("/a", "-o", "wrong\(option)", option, wrong).status == 65)
            let done = try bed.get("/a", "-o", "right\(option)", option, right)
            #expect(done.status == 0 && done.errors.contains("accidents") == (option == "--sha1"), "\(done.errors)")
        }
        #expect(try bed.get("/a", "-o", "longer", "--length", "1001").status == 65)
        #expect(try bed.get("/a", "-o", "length", "--length", "1000").status == 0)
    }

    private func digest(_ algorithm: RunningDigest.Algorithm, of bytes: [UInt8]) throws -> String {
        var digest = try RunningDigest(algorithm)
        try digest.update(bytes)
        return Hexadecimal.text(try digest.finish())
    }

    @Test("--give-up-after: a server that asks for a longer wait is not waited for")
    func giveUpAfter() throws {
        try bed.server.answer("/busy", Answer(status: 503, headers: [["Retry-After", "7200"]]))
        let done = try bed.get("/busy", "--give-up-after", "1h")
        #expect(done.status == 75 && done.errors.contains("given up"), "\(done.errors)")
    }

    @Test("Every option reaches the request or the connections")
    func request() throws {
        let words = [
            "https://localhost/a", "--priority=-5", "--retries", "3", "--give-up-after", "2h", "--header", "X-A: b: c",
            "--proxy", "socks5h://[::1]:1080", "--class", "first-unlock", "--max-size", "2k", "--limit-rate", "3M",
            "--accept-type", "text/*", "--replace", "--directory", "/tmp",
        ]
        let request = try #require(try DownloadAdd.parse(words).wanted.requests(Outcome()).first)
        #expect(request.priority == -5 && request.retry.maximumFailures == 3)
        #expect(request.retry.maximumTime == .seconds(7200))
        #expect(request.headers == [HTTPHeader("X-A", "b: c")] && request.proxy?.description == "socks5h://[::1]:1080")
        #expect(request.protectionClass == .completeUntilFirstUserAuthentication && request.acceptedTypes == ["text/*"])
        #expect(request.maximumLength == 2048 && request.bandwidthLimit == 3 << 20 && request.replacesExisting)
        #expect(request.target == "/tmp/a")
        let get = try DownloadGet.parse(["https://localhost/a", "--connect-timeout", "7s", "--stall-timeout", "2m"])
        let connections = try get.connection.connections()
        #expect(connections.connectTimeout == .seconds(7) && connections.stallLimit.duration == .seconds(120))
    }
}
