import FaultServer
import Foundation
import Testing

@testable import protectfs_download

@Suite(
    "Examples of downloads and requests",
    .enabled(if: Example.areBuilt, "the examples are not built: Tests/build builds them"))
struct DownloadExampleTests {
    private let bed: DownloadSandbox

    init() throws { bed = try DownloadSandbox() }

    @Test("LockedDownload: locks half way, finishes while locked, is complete after the unlock")
    func lockedDownload() throws {
        let bytes = Answer.pattern(0..<900_000)
        var sum = try RunningDigest(.sha256)
        try sum.update(bytes)
        try bed.server.answer("/a", Answer(length: bytes.count).with(\.bytesPerSecond, 300_000))
        let program = bed.sandbox.start(
            Example.path("LockedDownload"),
            [
                bed.server.url("/a").absoluteString, bed.sandbox.path("a"), try sum.finish().hexadecimal,
                "authority.pem",
            ], input: FileHandle.nullDevice)
        _ = FileManager.default.createFile(atPath: bed.sandbox.path("said"), contents: nil)
        program.standardOutput = FileHandle(forWritingAtPath: bed.sandbox.path("said"))
        try program.run()
        #expect(try waits { try bed.list().first?["state"] as? String == "finished" })
        #expect(try bed.sandbox.run("class", "a").text == "unless-open\n")
        #expect(try bed.sandbox.run("cat", "a").status == 75)
        // Without the command, which would begin to raise the file as well.
        let passcode = CommandSandbox.passcode.utf8
        try Keybag(at: FilePath(bed.sandbox.keybagDirectory)).unlock(
            passcode: SecretBytes(byteCount: passcode.count) { $0.copyBytes(from: passcode) })
        program.waitUntilExit()
        #expect(program.terminationStatus == 0)
        let said = String(decoding: try bed.sandbox.stored("said"), as: UTF8.self).split(separator: "\n")
        #expect(said.count == 4 && said.first?.hasPrefix("locked at ") == true, "\(said)")
        #expect(said.dropFirst().prefix(2) == ["finished, class completeUnlessOpen", "waiting for: protectfs unlock"])
        #expect(said.last == "now class complete")
        #expect(try bed.sandbox.run("cat", "a").output == Data(bytes))
    }

    @Test("PinnedRequest: a pin, a backup pin, and a client certificate; with no right pin no request is sent")
    func pinnedRequest() throws {
        let server = bed.server
        _ = try server.makeCertificate("client", ["issuer": "authority", "client": true])
        let port = try server.listen("mutual", chain: ["server"], clientAuthority: "authority")
        try server.answer("/hello", Answer(status: 200, "hello"))
        let pin = try CertificatePin.publicKey(
            of: Certificate(pem: String(contentsOfFile: server.directory + "/server.pem", encoding: .utf8)))
        let other = "sha256//" + Data(repeating: 1, count: 32).base64EncodedString()
        let script = """
            openssl pkcs12 -export -inkey "$0/client.key" -in "$0/client.pem" -passout pass: -out identity.p12 &&
                exec "$@" <identity.p12
            """
        let words = [server.directory, Example.path("PinnedRequest"), "https://localhost:\(port)/hello", other]
        let refused = try bed.sandbox.shell(script, words)
        #expect(refused.status != 0 && refused.text.isEmpty)
        #expect(try server.received().isEmpty)
        let done = try bed.sandbox.shell(script, words + ["\(pin)"])
        #expect(done.text == "200 hello\n", "\(done.errors)")
        #expect(try server.requests().map(\.clientSubject) == ["commonName=client"])
    }
}

extension [UInt8] {
    fileprivate var hexadecimal: String { map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() }
}
