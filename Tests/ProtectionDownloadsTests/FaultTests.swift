import Foundation
import ProtectionKeys
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// What servers, disks and other people can do wrong: never a splice, nothing published unchecked.
@Suite struct FaultTests {
    private let bytes = noise(400_000)

    private func bed() throws -> DownloadBed {
        let bed = try DownloadBed()
        bed.server["file"] = .init(bytes: bytes)
        return bed
    }

    private func request(_ bed: DownloadBed) throws -> DownloadRequest {
        var request = bed.request()
        request.checks = [.digest(.sha256, try Digest.sha256(bytes))]
        return request
    }

    /// It must end well, with just these bytes, whatever the answers before were.
    private func succeeds(_ faults: FakeServer.Fault..., requests: Int) async throws {
        for memory in memories {
            let bed = try bed()
            for fault in faults { bed.server.answer(fault) }
            let download = try await bed.result(try request(bed), memory: memory)
            #expect(download.state == .finished, "\(String(describing: download.failure)), \(memory)")
            #expect(try bed.contents() == bytes)
            #expect(bed.server.requests.count == requests, "\(memory)")
            #expect(try bed.names() == ["file"])
        }
    }

    @Test(arguments: (0..<20).map { $0 * 20_011 }) func reset(at offset: Int) async throws {
        try await succeeds(.reset(after: offset), requests: 2)
    }

    @Test func resetAgainAndAgain() async throws {
        try await succeeds(
            .reset(after: 1000), .reset(after: 1000), .reset(after: 1000), .reset(after: 1000), .reset(after: 1000),
            .reset(after: 1000), requests: 7)
    }

    @Test func truncated() async throws { try await succeeds(.short(by: 1), requests: 2) }
    @Test func extraBytes() async throws { try await succeeds(.extra(1), requests: 2) }
    @Test func noRanges() async throws { try await succeeds(.reset(after: 150_000), .ignoresRange, requests: 2) }
    @Test func wrongPart() async throws {
        try await succeeds(.reset(after: 150_000), .wrongRange(first: 149_999), requests: 3)
    }
    @Test func wrongTotal() async throws { try await succeeds(.reset(after: 150_000), .wrongTotal, requests: 3) }
    @Test func shortParts() async throws {
        try await succeeds(.reset(after: 150_000), .shortPart(100_000), .shortPart(100_000), requests: 4)
    }
    @Test func noLength() async throws { try await succeeds(.noLength, requests: 1) }
    @Test func lengthTooLarge() async throws { try await succeeds(.wrongLength(400_001), requests: 3) }
    @Test func lengthTooSmall() async throws { try await succeeds(.wrongLength(399_999), requests: 3) }
    @Test func comeBackLater() async throws {
        try await succeeds(.status(429, ["Retry-After": "0"]), .status(503, ["Retry-After": "0"]), requests: 3)
    }
    @Test func badGateway() async throws { try await succeeds(.reset(after: 100_000), .status(502, [:]), requests: 3) }

    /// Every byte was there, and the process was killed before it could say so.
    @Test func nothingIsLeft() async throws {
        try await succeeds(.reset(after: 400_000), requests: 2)
    }

    @Test func changedMeanwhile() async throws {
        let bed = try bed()
        bed.server.answer(.reset(after: 150_000))
        let other = noise(300_000, seed: 2)
        var request = bed.request()
        request.retry.firstDelay = .milliseconds(200)
        let queue = try bed.queue()
        let download = try await queue.add(request)
        bed.server.beforeEachPiece { sent in
            if sent == 150_000 { bed.server["file"] = .init(bytes: other, entityTag: "\"2\"") }
        }
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(download.id).state == .finished)
        #expect(try bed.contents() == other)
        #expect(bed.server.requests.count == 2)
    }

    /// Without anything that tells versions apart a rest is never asked for.
    @Test func withoutValidators() async throws {
        let bed = try bed()
        bed.server["file"] = .init(bytes: bytes, entityTag: "W/\"1\"")
        bed.server.answer(.reset(after: 150_000))
        #expect(try await bed.result(try request(bed)).state == .finished)
        #expect(bed.server.requests.allSatisfy { !$0.headers.contains { $0.name == "Range" } })
        #expect(try bed.contents() == bytes)
    }

    @Test func byLastModified() async throws {
        let bed = try bed()
        let date = "Sun, 06 Nov 1994 08:00:00 GMT"
        bed.server["file"] = .init(bytes: bytes, entityTag: nil, lastModified: date)
        bed.server.answer(.reset(after: 150_000))
        #expect(try await bed.result(try request(bed)).state == .finished)
        #expect(bed.server.requests[1].headers.first { $0.name == "If-Range" }?.value == date)
        #expect(try bed.contents() == bytes)
    }

    // MARK: what fails for good

    private func failure(_ bed: DownloadBed, _ request: DownloadRequest? = nil) async throws -> DownloadFailure? {
        let download = try await bed.result(request)
        #expect(download.state == .failed)
        #expect(!(try bed.names()).contains("file"))
        return download.failure
    }

    @Test func encoded() async throws {
        let bed = try bed()
        bed.server.answer(.encoded("gzip"))
        #expect(try await failure(bed)?.kind == .unusable)
        #expect(bed.server.requests.count == 1)
    }

    @Test(arguments: [404, 410, 400, 501]) func refused(_ status: Int) async throws {
        let bed = try bed()
        bed.server.answer(.status(status, [:]))
        let failure = try await failure(bed)
        #expect(failure?.kind == .refused)
        #expect(failure?.status == status)
        #expect(try bed.names() == [])
    }

    @Test(arguments: [401, 407]) func credentials(_ status: Int) async throws {
        let bed = try bed()
        bed.server.answer(.status(status, [:]))
        #expect(try await failure(bed)?.kind == .credentials)
    }

    @Test func givenUp() async throws {
        let bed = try bed()
        for _ in 0..<4 { bed.server.answer(.status(503, [:])) }
        #expect(try await failure(bed)?.kind == .gaveUp)
        #expect(bed.server.requests.count == 4)
        // By hand it is tried again.
        let queue = try bed.queue()
        let id = try await queue.downloads()[0].id
        try await queue.resume(id)
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(id).state == .finished)
    }

    @Test(arguments: [RunningDigest.Algorithm.md5, .sha1, .sha256, .sha512])
    func wrongDigest(_ algorithm: RunningDigest.Algorithm) async throws {
        let bed = try bed()
        var request = bed.request()
        request.checks = [.digest(algorithm, [UInt8](repeating: 7, count: algorithm.length))]
        let failure = try await failure(bed, request)
        #expect(failure?.kind == .checksum)
        #expect(failure?.message.hasPrefix(algorithm.rawValue) == true)
        #expect(try bed.names() == [])
    }

    @Test func wrongLength() async throws {
        let bed = try bed()
        var request = bed.request()
        request.checks = [.length(400_001)]
        #expect(try await failure(bed, request)?.kind == .checksum)
        bed.server.answer(.noLength)
        #expect(try await failure(bed, request)?.kind == .checksum)
        #expect(try bed.names() == [])
    }

    @Test func tooLarge() async throws {
        let bed = try bed()
        var request = bed.request()
        request.maximumLength = 399_999
        #expect(try await failure(bed, request)?.kind == .unusable)
        bed.server.answer(.noLength)
        #expect(try await failure(bed, request)?.kind == .unusable)
        request.maximumLength = 400_000
        #expect(try await bed.result(request).state == .finished)
    }

    @Test func noRoom() throws {
        let bed = try bed()
        #expect(DiskSpace.failure(for: 1000, in: bed.directory) == nil)
        #expect(DiskSpace.failure(for: 1 << 60, in: bed.directory)?.kind == .disk)
        #expect(DiskSpace.failure(for: .max, in: bed.directory)?.kind == .disk)
    }

    @Test(arguments: memories) func theTargetHasAppeared(_ memory: Int) async throws {
        let bed = try bed()
        bed.server.beforeEachPiece { sent in
            if sent == 200_000 { try Data("mine".utf8).write(to: URL(fileURLWithPath: bed.path("file").string)) }
        }
        let queue = try bed.queue(memory: memory)
        let download = try await queue.add(bed.request())
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(download.id).failure?.kind == .targetExists)
        #expect(try Data(contentsOf: URL(fileURLWithPath: bed.path("file").string)) == Data("mine".utf8))
        // It is moved away: what came is not downloaded again.
        try FileManager.default.removeItem(atPath: bed.path("file").string)
        bed.server.beforeEachPiece(nil)
        try await queue.resume(download.id)
        try await queue.run(untilIdle: true)
        #expect(try bed.contents() == bytes)
        #expect(bed.server.requests.count == 1)
        #expect(try bed.names() == ["file"])
    }

    @Test func thereAlready() async throws {
        let bed = try bed()
        try Data("old".utf8).write(to: URL(fileURLWithPath: bed.path("file").string))
        let queue = try bed.queue()
        let error = await #expect(throws: DownloadError.self) { try await queue.add(bed.request()) }
        guard case .targetExists? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        var request = bed.request()
        request.replacesExisting = true
        #expect(try await bed.result(request).state == .finished)
        #expect(try bed.contents() == bytes)
        #expect(try bed.names() == ["file"])
    }

    @Test func theDirectoryHasGone() async throws {
        let bed = try bed()
        try FileManager.default.createDirectory(atPath: bed.path("d").string, withIntermediateDirectories: false)
        bed.server["d/file"] = .init(bytes: bytes)
        bed.server.beforeEachPiece { sent in
            if sent == 200_000 { try FileManager.default.removeItem(atPath: bed.path("d").string) }
        }
        let queue = try bed.queue()
        let download = try await queue.add(bed.request("d/file"))
        try await queue.run(untilIdle: true)
        let failed = try await queue.download(download.id)
        #expect(failed.failure?.kind == .disk)
        #expect(try bed.names() == [])
        try await queue.remove(download.id)
        let error = await #expect(throws: DownloadError.self) { try await queue.add(bed.request("d/file")) }
        guard case .noDirectory? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    /// Altered, cut or removed by somebody else: all over again, never a part of it.
    @Test(arguments: [0, 1, 2]) func thePartialIsDamaged(_ how: Int) async throws {
        let bed = try bed()
        bed.server.answer(.reset(after: 150_000), .status(404, [:]))
        let queue = try bed.queue()
        let download = try await queue.add(try request(bed))
        try await queue.run(untilIdle: true)
        let partial = bed.path(try #require(try bed.names().first))
        switch how {
        case 0: try FileManager.default.removeItem(atPath: partial.string)
        case 1: truncate(partial.string, 9000)
        default:
            let file = try #require(FileHandle(forUpdatingAtPath: partial.string))
            try file.write(contentsOf: Data(repeating: 1, count: 8192))
            try file.close()
        }
        try await queue.resume(download.id)
        try await queue.run(untilIdle: true)
        let ended = try await queue.download(download.id)
        #expect(ended.state == .finished, "\(String(describing: ended.failure))")
        #expect(try bed.contents() == bytes)
        #expect(try bed.names() == ["file"])
    }

    @Test func whatCannotBeAdded() async throws {
        let bed = try bed()
        let queue = try bed.queue()
        for url in ["http://server.test/file", "ftp://a/b", "https:///x", "https://ann:secret@server.test/file"] {
            let error = await #expect(throws: DownloadError.self, "\(url)") {
                try await queue.add(DownloadRequest(URL(string: url)!, to: bed.path("f")))
            }
            guard case .invalidRequest? = error else {
                Issue.record("\(url): \(String(describing: error))")
                continue
            }
        }
        for target in ["relative", "/", "/tmp/.."] as [FilePath] {
            await #expect(throws: DownloadError.self, "\(target)") {
                try await queue.add(DownloadRequest(URL(string: "https://a/b")!, to: target))
            }
        }
        for header in ["Range", "if-range", "Host", "no name", "Line\nbreak"] {
            var request = bed.request("f")
            request.headers = [HTTPHeader(header, "bytes=1-")]
            await #expect(throws: DownloadError.self, "\(header)") { try await queue.add(request) }
        }
        #expect(try await queue.downloads().isEmpty)
    }
}
