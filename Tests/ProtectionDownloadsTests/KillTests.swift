import FaultServer
import Foundation
import ProtectionKeys
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// "Must show" 1: locked half way, killed again and again, over TLS. `PROTECTFS_DOWNLOAD_BYTES` and `PROTECTFS_KILLS` say how
/// large and how often.
@Suite struct KillTests {
    private static func number(_ name: String, _ fallback: Int) -> Int {
        ProcessInfo.processInfo.environment[name].flatMap(Int.init) ?? fallback
    }
    private static let length = number("PROTECTFS_DOWNLOAD_BYTES", 8 << 20)
    private static let kills = number("PROTECTFS_KILLS", 6)

    /// The built worker, beside this test's bundle.
    private static let worker = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
        .appendingPathComponent("download-worker")

    private func start(_ bed: DownloadBed, _ further: String...) throws -> Process {
        let process = Process()
        process.executableURL = Self.worker
        process.arguments = [bed.keybag.directory.string] + further
        process.standardInput = FileHandle.nullDevice
        process.environment = ProcessInfo.processInfo.environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { $1 }
        try process.run()
        return process
    }

    private func queue(_ bed: DownloadBed) throws -> DownloadQueue { try DownloadQueue(bed.keybag) }

    private func digest(_ length: Int) throws -> [UInt8] {
        var digest = try RunningDigest(.sha256)
        for start in stride(from: 0, to: length, by: 1 << 20) {
            try digest.update(Answer.pattern(start..<min(start + 1 << 20, length)))
        }
        return try digest.finish()
    }

    private func request(_ bed: DownloadBed, _ server: FaultServer) throws -> DownloadRequest {
        var request = DownloadRequest(server.url("/file"), to: bed.path("file"))
        let authority = String(decoding: try server.authority, as: UTF8.self)
        request.trust = try ServerTrust(anchors: .only([try Certificate(pem: authority)]))
        request.retry.firstDelay = 0.01
        return request
    }

    @Test(arguments: [false, true])
    func killedAgainAndAgain(locksFirst: Bool) async throws {
        let bed = try DownloadBed()
        let server = try FaultServer()
        let length = Self.length
        try server.answer(
            "/file", Answer(length: length).with(\.bytesPerSecond, max(length / max(4, Self.kills / 2), 1 << 20)))
        var request = try request(bed, server)
        request.checks = [.digest(.sha256, try digest(length)), .length(UInt64(length))]
        let queue = try queue(bed)
        let download = try await queue.add(request)
        if locksFirst { try bed.keybag.lock() }
        var generator = SystemRandomNumberGenerator()
        for kill in 0..<Self.kills {
            let process = try start(bed)
            usleep(.random(in: 20_000...700_000, using: &generator))
            if kill == Self.kills / 2 { try bed.keybag.lock() }
            #expect(process.isRunning)
            Glibc.kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
            // Nothing has its name before it is whole and checked, and nothing can be read while locked.
            let now = try await queue.download(download.id)
            if now.state != .finished { #expect(!(try bed.names().contains("file"))) }
        }
        // The whole rest comes while locked.
        try server.answer("/file", Answer(length: length))
        let rest = try start(bed, "idle")
        rest.waitUntilExit()
        #expect(rest.terminationStatus == 0)
        let locked = try await queue.download(download.id)
        #expect(locked.received == UInt64(length) || locked.state == .finished)
        for name in try bed.names() {
            #expect(try bed.protectionClass(name) == .completeUnlessOpen)
            #expect(throws: DataProtectionError.self) { try bed.contents(name) }
        }
        try bed.unlock()
        let last = try start(bed, "idle")
        last.waitUntilExit()
        try bed.keybag.performQueuedWork()
        #expect(try await queue.download(download.id).state == .finished)
        #expect(try bed.names() == ["file"])
        #expect(try bed.protectionClass() == .complete)
        var found = try RunningDigest(.sha256)
        let file = try ProtectedFile.open(bed.path("file"), keybag: bed.keybag)
        for start in stride(from: 0, to: Int64(length), by: 1 << 20) {
            try found.update(Array(try file.read(1 << 20, at: start)))
        }
        #expect(try found.finish() == digest(length))
    }

    /// It ends in order: what has come is noted to the byte.
    @Test func runningInAnotherProcess() async throws {
        let bed = try DownloadBed()
        let server = try FaultServer()
        try server.answer("/file", Answer(length: 3 << 20))
        let process = try start(bed)
        defer { process.terminate() }
        let queue = try queue(bed)
        let download = try await queue.add(try request(bed, server))
        let file = try await download.value
        #expect(file.length == 3 << 20)
        #expect(queue.isRunning)
    }
}
