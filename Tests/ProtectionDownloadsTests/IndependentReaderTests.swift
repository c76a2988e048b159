import Foundation
import ProtectionKeys
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// What the list says, Tests/IndependentReader/downloads.py reads: it was written from FORMAT.md §2.14 and knows no Swift.
@Suite struct IndependentReaderTests {
    private let bed: DownloadBed

    init() throws { bed = try DownloadBed() }

    /// What the reader prints.
    private func read() throws -> [String: [[String: Any]]] {
        let reader = FilePath(#filePath).removingLastComponent().removingLastComponent()
            .appending("IndependentReader/downloads.py")
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
        process.arguments = [
            "-B", reader.string, "--keybag", bed.keybag.directory.string, "--device-key",
            bed.keybag.directory.removingLastComponent().appending("device-key").string, "--passcode-fd", "0",
        ]
        let (input, output) = (Pipe(), Pipe())
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        try input.fileHandleForWriting.write(contentsOf: Data(DownloadBed.passcode.utf8))
        try input.fileHandleForWriting.close()
        let printed = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        return try #require(try JSONSerialization.jsonObject(with: printed) as? [String: [[String: Any]]])
    }

    @Test func aDownload() async throws {
        let (queue, pin) = (try bed.queue(), String(repeating: "ab", count: 32))
        var request = bed.request("file")
        request.headers = [HTTPHeader("X-A", "b")]
        request.checks = [
            .length(1000), .digest(.md5, Array(repeating: 1, count: 16)),
            .hmacSHA256(keyID: "k", tag: Array(repeating: 2, count: 32)),
        ]
        request.trust = try ServerTrust(pins: [.server(.certificate(pin))], host: .expected("name.test"))
        request.spaces = [ProtectionSpace(host: "server.test", port: 443, realm: "r", method: .digest)]
        request.proxy = HTTPProxy(.socks5h, host: "::1", port: 1080)
        (request.bandwidthLimit, request.priority, request.name) = (5000, -2, "mine")
        try await queue.addIntegrityKey(IntegrityKey(id: "k", SecretBytes(byteCount: 32) { $0[0] = 7 }))
        let id = try await queue.add(request).id
        let part = SegmentRecord(number: 3, start: 0, synced: 600, fileID: Array(repeating: 8, count: 16))
        try queue.store.note(
            PartialRecord(resource: ResourceIdentity(entityTag: "\"1\"", length: 1000), parts: [part]), of: id)
        try queue.store.retry(id, at: 5, after: DownloadFailure(.refused, "it said 503", status: 503))

        let list = try read()
        let row = try #require(list["downloads"]?.first)
        #expect(row["id"] as? String == "\(id)" && row["state"] as? Int == 1 && row["activity"] as? Int == 2)
        #expect(row["received"] as? Int == 600 && row["length"] as? Int == 1000 && row["notBefore"] as? Int == 5)
        let resource = try #require(row["resource"] as? [String: Any])
        let parts = try #require(resource["parts"] as? [[String: Any]])
        #expect(parts.count == 1 && parts[0]["fileID"] as? [UInt8] == part.fileID)
        #expect(["number", "start", "synced"].map { parts[0][$0] as? Int } == [3, 0, 600])
        #expect(resource["isWhole"] as? Bool == false && resource["entityTag"] as? String == "\"1\"")
        let failure = row["failure"] as? [String: Any]
        #expect(failure?["kind"] as? String == "refused" && failure?["status"] as? Int == 503)

        let said = try #require(row["request"] as? [String: Any])
        #expect(
            said["url"] as? String == "https://server.test/file" && said["target"] as? [UInt8] == bed.path("file").bytes
        )
        #expect(said["headers"] as? [[String: String]] == [["name": "X-A", "value": "b"]])
        #expect(said["protectionClass"] as? Int == 1 && said["whileLocked"] as? String == "continue")
        #expect(said["bandwidthLimit"] as? Int == 5000 && said["name"] as? String == "mine")
        #expect(said["proxy"] as? String == "socks5h://[::1]:1080")
        let checks = try #require(said["checks"] as? [[String: Any]])
        #expect(checks.map { $0["kind"] as? String } == ["length", "md5", "hmac-sha256"])
        #expect(checks[0]["length"] as? Int == 1000 && checks[2]["keyID"] as? String == "k")
        #expect(checks[1]["value"] as? String == String(repeating: "01", count: 16))
        let space = (said["spaces"] as? [[String: Any]])?.first
        #expect(space?["kind"] as? String == "https" && space?["realm"] as? String == "r")
        let trust = said["trust"] as? [String: Any]
        #expect(trust?["anchors"] as? String == "system" && trust?["host"] as? String == "expected")
        let group = (trust?["pins"] as? [[String: Any]])?.first
        #expect(group?["place"] as? String == "server")
        #expect(group?["pins"] as? [[String: String]] == [["of": "certificate", "sha256": pin]])
        let key = list["integrityKeys"]?.first
        #expect(key?["name"] as? String == Hexadecimal.text(Array("k".utf8)))
        #expect(key?["key"] as? String == "07" + String(repeating: "00", count: 31))
    }

    @Test func whatIsRefused() async throws {
        let (queue, space) = (try bed.queue(), ProtectionSpace(host: "server.test", port: 443))
        let password = try DownloadCredential(.password(user: "ann", .text("right")), for: space)
        let token = try DownloadCredential(.token(.text("a token")), for: space)
        var request = bed.request("file")
        request.credentials = [password, token]
        _ = try await queue.add(request)
        let met = ProtectionSpace(host: "server.test", port: 443, realm: "maps", method: .basic)
        try await StoredFailures(store: queue.store).insert(password.credential(), in: met)

        let list = try #require(try read()["credentials"])
        #expect(list.map { ($0["entry"] as? [String: Any])?["kind"] as? String } == ["password", "token"])
        #expect(list.map { $0["secret"] as? String } == ["right", "a token"].map { Hexadecimal.text(Array($0.utf8)) })
        #expect(list.map { $0["isRefused"] as? Bool } == [true, false])
    }
}
