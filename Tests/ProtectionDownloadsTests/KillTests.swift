import FaultServer
import Foundation
import ProtectionKeys
import TestEffort
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// Over TLS, killed again and again, locked and unlocked meanwhile. 8 MiB and 6 kills at the least
/// effort, 1 GiB and 50 kills at the most.
@Suite struct KillTests {
    private static let length = Effort.count(8, 1_024) << 20
    private static let kills = Effort.count(6, 50)
    private static let bytesPerSecond = max(length / max(4, kills), 1 << 20)
    private static let pattern = Answer.pattern(0..<length)

    /// Who sends the file.
    enum Server: CaseIterable { case ours, nginx }

    /// When the keybag is locked: from the beginning, or after a quarter, then again after three quarters.
    enum Locks: CaseIterable { case first, twice }

    private func request(_ bed: DownloadBed, _ server: FaultServer, _ url: URL) throws -> DownloadRequest {
        var request = DownloadRequest(url, to: bed.path("file"))
        let authority = String(decoding: try server.authority, as: UTF8.self)
        request.trust = try ServerTrust(anchors: .only([try Certificate(pem: authority)]))
        request.retry.firstDelay = .milliseconds(10)
        return request
    }

    private func serve(_ bed: DownloadBed, _ server: FaultServer) throws -> Nginx {
        let directory = server.directory + "/files"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
        try Data(Self.pattern).write(to: URL(fileURLWithPath: directory + "/file"))
        return try Nginx(
            serving: directory, certificate: "\(server.directory)/server", bytesPerSecond: Self.bytesPerSecond)
    }

    @Test(arguments: Server.allCases, Locks.allCases)
    func killedAgainAndAgain(_ kind: Server, _ locks: Locks) async throws {
        guard kind == .ours || Nginx.isThere else { return print("skipped: kills beside nginx: it is not installed") }
        let bed = try DownloadBed()
        let server = try FaultServer()
        let length = Self.length
        try server.answer("/file", Answer(length: length).with(\.bytesPerSecond, Self.bytesPerSecond))
        let nginx = kind == .nginx ? try serve(bed, server) : nil
        var request = try request(bed, server, nginx?.url("/file") ?? server.url("/file"))
        var sum = try RunningDigest(.sha256)
        try sum.update(Self.pattern)
        let digest = try sum.finish()
        request.checks = [.digest(.sha256, digest), .length(UInt64(length))]
        let queue = try DownloadQueue(bed.keybag)
        let download = try await queue.add(request)
        if locks == .first { try bed.keybag.lock() }
        var generator = Effort.generator("KillTests, \(kind), \(locks)")
        var received: UInt64 = 0
        for kill in 0..<Self.kills {
            let process = try DownloadWorker.start(bed)
            // What has come is noted once a second: some are killed before, some after.
            usleep(.random(in: 20_000...2_000_000, using: &generator))
            if locks == .twice {
                if kill == Self.kills / 4 || kill == Self.kills * 3 / 4 { try bed.keybag.lock() }
                if kill == Self.kills / 2 { try bed.unlock() }
            }
            #expect(process.isRunning)
            Glibc.kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
            // Nothing has its name before it is whole and checked, and what was noted as flushed stays.
            let now = try await queue.download(download.id)
            if now.state != .finished { #expect(!(try bed.names().contains("file"))) }
            #expect(now.received >= received)
            received = now.received
        }
        // The whole rest comes while locked.
        if kind == .ours { try server.answer("/file", Answer(length: length)) }
        #expect(try DownloadWorker.runUntilIdle(bed) == 0)
        let locked = try await queue.download(download.id)
        #expect(locked.received == UInt64(length) || locked.state == .finished)
        for name in try bed.names() {
            #expect(try bed.protectionClass(name) == .completeUnlessOpen)
            #expect(throws: DataProtectionError.self) { try bed.contents(name) }
        }
        try bed.unlock()
        #expect(try DownloadWorker.runUntilIdle(bed) == 0)
        try bed.keybag.performQueuedWork()
        #expect(try await queue.download(download.id).state == .finished)
        #expect(try bed.names() == ["file"])
        #expect(try bed.protectionClass() == .complete)
        #expect(try bed.digest() == digest)
        let tries = try await queue.download(download.id).attempts
        print(
            "storm, download: \(length) bytes, beside \(kind), locks \(locks), at any time: \(Self.kills) kills,",
            "\(tries) tries, \(received) bytes before the last")
        withExtendedLifetime(nginx) {}
    }

    /// It ends in order: what has come is noted to the byte.
    @Test func runningInAnotherProcess() async throws {
        let bed = try DownloadBed()
        let server = try FaultServer()
        try server.answer("/file", Answer(length: 3 << 20))
        let process = try DownloadWorker.start(bed)
        defer { process.terminate() }
        let queue = try DownloadQueue(bed.keybag)
        let download = try await queue.add(try request(bed, server, server.url("/file")))
        let file = try await download.value
        #expect(file.length == 3 << 20)
        #expect(queue.isRunning)
    }
}
