import FaultServer
import Foundation
import Glibc
import ProtectionKeys
import TestEffort
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// The fault table once more, with everything that is real: libcurl, TLS, and a server that breaks connections.
@Suite struct LiveFaultTests {
    private static let length = 1 << 20
    private let server: FaultServer
    private let bed: DownloadBed
    private let whole = Answer(length: length)

    init() throws {
        server = try FaultServer()
        bed = try DownloadBed()
    }

    private func request(_ url: URL? = nil) throws -> DownloadRequest {
        var request = DownloadRequest(url ?? server.url("/file"), to: bed.path("file"))
        let authority = String(decoding: try server.authority, as: UTF8.self)
        request.trust = try ServerTrust(anchors: .only([try Certificate(pem: authority)]))
        request.retry.firstDelay = .milliseconds(10)
        request.retry.maximumFailures = 4
        request.checks = [.digest(.sha256, try Digest.sha256(Answer.pattern(0..<Self.length)))]
        return request
    }

    private func download(
        _ request: DownloadRequest, _ connections: DownloadConnections = DownloadConnections()
    ) async throws -> Download {
        let queue = try DownloadQueue(bed.keybag, connections: connections)
        let download = try await queue.add(request)
        try await queue.run(untilIdle: true)
        return try await queue.download(download.id)
    }

    /// It ends with just these bytes, whatever the answers before were.
    private func succeeds(_ answers: Answer..., requests: Int = 2) async throws {
        if answers.count == 1 {
            try server.answer("/file", answers[0], whole)
        } else {
            try server.answer("/file", answers[0], answers[1], whole)
        }
        let done = try await download(try request())
        #expect(done.state == .finished, "\(String(describing: done.failure))")
        #expect(try bed.contents() == Answer.pattern(0..<Self.length))
        let asked = try server.requests().map { $0["Range"] ?? "all" }
        #expect(asked.count == requests, "\(asked)")
        #expect(try bed.names() == ["file"])
    }

    @Test func resetAtTwentyPoints() async throws {
        var generator = Effort.generator("reset at twenty points")
        for point in [0, 1, Self.length - 1] + (0..<17).map({ _ in Int.random(in: 0..<Self.length, using: &generator) })
        {
            let once = try LiveFaultTests()
            try once.server.answer("/file", once.whole.with(\.cutAfter, point).with(\.end, .reset), once.whole)
            let done = try await once.download(try once.request())
            #expect(done.state == .finished, "\(point): \(String(describing: done.failure))")
            #expect(try once.bed.contents() == Answer.pattern(0..<Self.length), "\(point)")
        }
    }

    @Test func truncated() async throws { try await succeeds(whole.with(\.cutAfter, 700_000).with(\.end, .close)) }
    @Test func abortedTLS() async throws { try await succeeds(whole.with(\.cutAfter, 700_000).with(\.end, .abort)) }
    @Test func brokenHead() async throws { try await succeeds(whole.with(\.cutHeadAfter, 30).with(\.end, .close)) }
    @Test func extraBytes() async throws { try await succeeds(whole.with(\.extra, 1000), requests: 1) }
    @Test func chunked() async throws { try await succeeds(whole.with(\.chunked, true), requests: 1) }
    @Test func ignoresRange() async throws {
        try await succeeds(
            whole.with(\.cutAfter, 300_000).with(\.end, .reset), whole.with(\.honoursRange, false), requests: 2)
    }
    @Test func anotherPart() async throws {
        try await succeeds(
            whole.with(\.cutAfter, 300_000).with(\.end, .close),  // a reset would take what is on its way with it
            whole.with(\.contentRange, "bytes 299999-1048574/1048576"), requests: 3)
    }
    @Test func later() async throws {
        try await succeeds(
            Answer(status: 503, headers: [["Retry-After", "0"]]), Answer(status: 429, headers: [["Retry-After", "0"]]),
            requests: 3)
    }

    @Test func stalled() async throws {
        try server.answer("/file", whole.with(\.cutAfter, 200_000).with(\.end, .stall), whole)
        var connections = DownloadConnections()
        connections.stallLimit = .init(bytesPerSecond: 1, duration: .seconds(1))
        #expect(try await download(try request(), connections).state == .finished)
        #expect(try bed.contents() == Answer.pattern(0..<Self.length))
    }

    @Test func changed() async throws {
        try server.answer(
            "/file", Answer(length: Self.length, seed: 2, etag: "\"2\"").with(\.cutAfter, 300_000).with(\.end, .reset),
            whole)
        #expect(try await download(try request()).state == .finished)
        #expect(try bed.contents() == Answer.pattern(0..<Self.length))
    }

    // MARK: for good

    private func fails(_ kind: DownloadFailure.Kind, _ request: DownloadRequest) async throws {
        let failed = try await download(request)
        #expect(failed.state == .failed)
        #expect(failed.failure?.kind == kind, "\(String(describing: failed.failure))")
        #expect(!(try bed.names().contains("file")))
    }

    @Test func encoded() async throws {
        var answer = whole
        answer.headers = [["Content-Encoding", "gzip"]]
        try server.answer("/file", answer)
        try await fails(.unusable, try request())
    }

    @Test func redirectLoop() async throws {
        try server.answer("/file", .redirect(to: "/file"))
        try await fails(.refused, try request())
    }

    @Test func redirectToPlainHTTP() async throws {
        try server.answer("/file", .redirect(to: server.url("/file", scheme: "http").absoluteString))
        try await fails(.refused, try request())
    }

    @Test func untrusted() async throws {
        try server.answer("/file", whole)
        var request = try request()
        request.trust = ServerTrust()
        try await fails(.untrusted, request)
        #expect(try server.requests().isEmpty)
        #expect(try server.received().isEmpty)
    }

    @Test func credentialsWanted() async throws {
        try server.answer("/file", Answer(status: 401, headers: [["WWW-Authenticate", "Basic realm=\"x\""]]))
        try await fails(.credentials, try request())
    }

    /// What comes is more than there is room for, and nobody said so before.
    @Test func theDiskIsFull() async throws {
        let disk = bed.path("disk")
        try FileManager.default.createDirectory(atPath: disk.string, withIntermediateDirectories: false)
        guard mount("tmpfs", disk.string, "tmpfs", 0, "size=512k") == 0 else {
            print("skipped: no file system can be mounted here: \(Errno(rawValue: errno))")
            return
        }
        defer { umount2(disk.string, Int32(MNT_DETACH)) }
        try server.answer("/file", whole.with(\.chunked, true))
        var request = try request()
        request.target = disk.appending("file")
        let queue = try DownloadQueue(bed.keybag)
        let full = try await queue.add(request)
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(full.id).failure?.kind == .disk)
        #expect(try bed.names(in: disk).count == 1)
        // Announced, it is not even begun.
        try server.answer("/file", whole)
        try await queue.resume(full.id)
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(full.id).failure?.message.contains("there is room for") == true)
        // With more room it goes on.
        #expect(mount("tmpfs", disk.string, "tmpfs", UInt(MS_REMOUNT), "size=4m") == 0)
        try await queue.resume(full.id)
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(full.id).state == .finished)
        #expect(try bed.names(in: disk) == ["file"])
    }
}

extension DownloadBed {
    func names(in directory: FilePath) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: directory.string).sorted()
    }
}
