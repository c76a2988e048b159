import FaultServer
import Foundation
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// What becomes of what is in memory when something else happens than that it is finished.
@Suite struct SmallFileEndTests {
    private let bytes = noise(200_000)

    /// At the edges of what is kept in memory.
    @Test(arguments: [0, 1, WriteBuffer.capacity - 1, WriteBuffer.capacity, WriteBuffer.capacity + 1])
    func edges(_ length: Int) async throws {
        let bed = try DownloadBed()
        bed.server["file"] = .init(bytes: noise(length))
        #expect(try await bed.result(memory: WriteBuffer.capacity).state == .finished)
        #expect(try bed.contents() == noise(length))
        #expect(try bed.protectionClass() == .complete)
        #expect(try bed.names() == ["file"])
    }

    /// The connection broke behind the last byte: that it came is not forgotten, and nothing waits in memory for the next try.
    @Test func everythingCameAndNobodySaidSo() async throws {
        let bed = try DownloadBed()
        bed.server["file"] = .init(bytes: bytes)
        bed.server.answer(.reset(after: bytes.count))
        #expect(try await bed.result(memory: WriteBuffer.capacity).state == .finished)
        let ranges = bed.server.requests.map { $0.headers.first { $0.name == "Range" }?.value }
        #expect(ranges == [nil, "bytes=\(bytes.count)-"])
        #expect(try bed.contents() == bytes)
    }

    private func partial(_ bed: DownloadBed) throws -> (PartialFile, DownloadStore, DownloadID) {
        let store = try bed.queue().store
        let id = try store.add(bed.request())
        let partial = PartialFile(
            id, bed.request(), store, keys: [:], isNew: true, memory: WriteBuffer.capacity)
        try partial.prepare()
        try partial.restart(as: ResourceIdentity(entityTag: "\"new\"", length: UInt64(bytes.count)))
        try bytes[..<100].withUnsafeBytes { try partial.append($0) }
        #expect(partial.isInMemory && partial.position == 100)
        return (partial, store, id)
    }

    /// What could not be noted does not count as having come: the list may say that it is of another version.
    @Test func whatWasNotNotedIsNotThere() async throws {
        let bed = try DownloadBed()
        let (partial, store, id) = try partial(bed)
        try store.change(id, from: [.queued], to: .paused)
        #expect(throws: Superseded.self) { try partial.sync() }
        #expect(partial.position == 0)
        try store.change(id, from: [.paused], to: .queued)
        try partial.prepare()
        #expect(partial.position == 0)
        #expect(try bed.names() == [])
    }

    /// Who waits for a server needs no room for what may come.
    @Test func nothingStaysInMemory() async throws {
        let bed = try DownloadBed()
        let (partial, _, _) = try partial(bed)
        try partial.sync()
        #expect(!partial.isInMemory && partial.buffer.room == 0 && partial.position == 100)
        try bytes[100...].withUnsafeBytes { try partial.append($0) }
        try partial.noteWhole(isLasting: true)
        #expect(try partial.check() == nil)
        try partial.close()
        #expect(partial.buffer.room == 0)
    }

    // MARK: keys that are rotated while the list is told

    private func rotate(_ bed: DownloadBed) throws {
        let passcode = DownloadBed.secret(DownloadBed.passcode)
        try bed.keybag.open(passcode: passcode).rotate(passcode: passcode, iterations: 1_000)
    }

    private func file(_ bed: DownloadBed) throws -> WholeFile {
        try bytes.withUnsafeBytes { bytes throws(DataProtectionError) in
            try WholeFile(bytes, for: bed.path("file"), as: .complete, keybag: bed.keybag)
        }
    }

    /// No pass finds a file without a name.
    @Test func rotatedBeforeItHasItsName() throws {
        let bed = try DownloadBed()
        let file = try file(bed)
        try rotate(bed)
        try file.publish(replacing: false)
        #expect(try !bed.keybag.needsRewrap(fileAt: bed.path("file")))
        #expect(try bed.contents() == bytes)
    }

    /// Nobody could read it: it does not get the name, and what is in memory is written anew.
    @Test func itsKeyIsForgottenBeforeItHasItsName() throws {
        let bed = try DownloadBed()
        let file = try file(bed)
        try rotate(bed)
        try bed.keybag.open(passcode: DownloadBed.secret(DownloadBed.passcode)).forgetRetiredKeys(before: 2)
        guard case .neverNamed = Publication.end(of: file, bed.request(), bed.keybag) else {
            Issue.record("it has a name and no key")
            return
        }
        #expect(try bed.names() == [])
    }
}

/// The end of a small file is not flushed while others wait; but they may have to wait long.
@Suite(.enabled(if: DownloadWorker.canTrace, "there is no strace(1) here that may trace"))
struct SmallFileFlushTests {
    @Test(.timeLimit(.minutes(2))) func whatIsFinishedLasts() async throws {
        let (bed, server) = (try DownloadBed(), try FaultServer())
        let queue = try DownloadQueue(bed.keybag)
        try server.answer("/file", Answer(length: 100_000))
        _ = try await queue.add(bed.request(server))
        for number in 0..<12 {
            try server.answer("/slow-\(number)", Answer(length: 1_000).with(\.holdAfter, 0))
            _ = try await queue.add(bed.request(server, "/slow-\(number)", as: "slow-\(number)"))
        }
        let log = bed.keybag.directory.removingLastComponent().appending("trace").string
        let process = try DownloadWorker.start(
            bed, "idle", wrapper: DownloadWorker.tracing(["pwrite64", "fdatasync", "linkat"]) + ["-o", log])
        var isFlushed = false
        for _ in 0..<400 where !isFlushed {
            try await Task.sleep(for: .milliseconds(50))
            isFlushed = try Self.isFlushed(log, bed)
        }
        #expect(isFlushed)
        // Those that are asked for later are held up, too.
        while process.isRunning {
            try server.release()
            try await Task.sleep(for: .milliseconds(50))
        }
        #expect(process.terminationStatus == 0)
    }

    /// Whether what the list was told after the file had its name is flushed.
    private static func isFlushed(_ log: String, _ bed: DownloadBed) throws -> Bool {
        let calls = (try? String(contentsOfFile: log, encoding: .utf8))?.split(separator: "\n") ?? []
        guard let link = calls.firstIndex(where: { $0.contains("linkat(") && $0.contains(bed.directory.string) }),
            let told = calls[link...].firstIndex(where: { $0.contains("pwrite64(") && $0.contains("queue.sqlite-wal") })
        else { return false }
        return calls[told...].contains { $0.contains("fdatasync(") && $0.contains("queue.sqlite-wal") }
    }
}
