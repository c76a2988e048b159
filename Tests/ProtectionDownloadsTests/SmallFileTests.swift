import FaultServer
import Foundation
import GRDB
import ProtectionKeys
import TestEffort
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// What is small is kept in memory until it is whole, and is then written once: with a name only when everything is right.
@Suite struct SmallFileTests {
    private let bytes = noise(200_000)

    private func bed(_ state: ProtectionState = .unlocked) throws -> DownloadBed {
        let bed = try DownloadBed(state)
        bed.server["file"] = .init(bytes: bytes)
        return bed
    }

    private func small(_ bed: DownloadBed) throws -> DownloadQueue { try bed.queue(memory: WriteBuffer.capacity) }

    @Test func nothingIsOnDiskBeforeTheFile() async throws {
        let bed = try bed()
        bed.server.beforeEachPiece { _ in try #expect(bed.names() == []) }
        #expect(try await bed.result(memory: WriteBuffer.capacity).state == .finished)
        #expect(try bed.names() == ["file"])
        #expect(try bed.protectionClass() == .complete)
        #expect(bed.keybag.queuedWorkCount == 0)
    }

    @Test func whatIsLargerGoesIntoAFileAtOnce() async throws {
        let bed = try bed()
        bed.server.beforeEachPiece { sent in try #expect(bed.names().count == 1) }
        #expect(try await bed.result(memory: bytes.count - 1).state == .finished)
        #expect(try bed.contents() == bytes)
    }

    /// After a second what came is in a file, so that no kill takes it all.
    @Test func whatIsSlowDoesNotStayInMemory() async throws {
        let later = Clock.Lead()
        try await Clock.$lead.withValue(later) {
            let bed = try bed()
            bed.server.beforeEachPiece { sent in
                if sent == 50_000 { later.move(by: 1.05) }
                try #expect(bed.names().count == (sent > 50_000 ? 1 : 0))
            }
            #expect(try await bed.result(memory: WriteBuffer.capacity).state == .finished)
            #expect(try bed.contents() == bytes)
            #expect(try bed.names() == ["file"])
        }
    }

    /// What came before a connection broke is kept, and the rest of it asked for.
    @Test func whatCameIsKept() async throws {
        let bed = try bed()
        bed.server.answer(.reset(after: 120_000))
        #expect(try await bed.result(memory: WriteBuffer.capacity).state == .finished)
        let ranges = bed.server.requests.map { $0.headers.first { $0.name == "Range" }?.value }
        #expect(ranges == [nil, "bytes=120000-"])
        #expect(try bed.contents() == bytes)
    }

    @Test func pausedAndResumed() async throws {
        let bed = try bed()
        let queue = try small(bed)
        let id = try await queue.add(bed.request()).id
        bed.server.beforeEachPiece { sent in if sent == 100_000 { try await queue.pause(id) } }
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(id).state == .paused)
        #expect(try !bed.names().contains("file"))
        bed.server.beforeEachPiece(nil)
        try await queue.resume(id)
        try await queue.run(untilIdle: true)
        #expect(try bed.contents() == bytes)
        #expect(try bed.names() == ["file"])
    }

    @Test func nothingStaysOfWhatIsWrong() async throws {
        let bed = try bed()
        var request = bed.request()
        request.checks = [.digest(.sha256, try Digest.sha256([1]))]
        let download = try await bed.result(request, memory: WriteBuffer.capacity)
        #expect(download.failure?.kind == .checksum)
        #expect(try bed.names() == [])
    }

    /// Classes that can be written while locked are the file's at once.
    @Test(arguments: [ProtectionClass.none, .completeUntilFirstUserAuthentication, .completeUnlessOpen])
    func lockedInItsOwnClass(_ wanted: ProtectionClass) async throws {
        let bed = try bed(.locked)
        var request = bed.request()
        request.protectionClass = wanted
        #expect(try await bed.result(request, memory: WriteBuffer.capacity).state == .finished)
        #expect(try bed.protectionClass() == wanted)
        #expect(bed.keybag.queuedWorkCount == 0)
        try bed.unlock()
        #expect(try bed.contents() == bytes)
    }

    @Test func replaces() async throws {
        let bed = try bed()
        try Data("old".utf8).write(to: URL(fileURLWithPath: bed.path("file").string))
        var request = bed.request()
        request.replacesExisting = true
        #expect(try await bed.result(request, memory: WriteBuffer.capacity).state == .finished)
        #expect(try bed.contents() == bytes)
        #expect(try bed.names() == ["file"])
    }

    // MARK: ends in between

    /// A finished one, of which the list says only what it said before its name was noted.
    private func publishing(_ bed: DownloadBed) async throws -> DownloadID {
        let id = try await bed.result(memory: WriteBuffer.capacity).id
        try bed.queue().store.write { try $0.execute(sql: "UPDATE downloads SET state = 3") }
        return id
    }

    @Test func namedAndNotNoted() async throws {
        let bed = try bed()
        let id = try await publishing(bed)
        try await bed.runUntilIdle()
        #expect(try await bed.queue().download(id).state == .finished)
        #expect(bed.server.requests.count == 1)
    }

    /// It was never there: it comes again, also where somebody else's file has its name by now.
    @Test(arguments: [false, true]) func notedAndNotNamed(_ isTaken: Bool) async throws {
        let bed = try bed()
        let id = try await publishing(bed)
        let path = bed.path("file").string
        try FileManager.default.removeItem(atPath: path)
        if isTaken { try Data("mine".utf8).write(to: URL(fileURLWithPath: path)) }
        try await bed.runUntilIdle()
        let download = try await bed.queue().download(id)
        #expect(bed.server.requests.count == 2)
        if isTaken {
            #expect(download.failure?.kind == .targetExists)
            #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == Data("mine".utf8))
        } else {
            #expect(download.state == .finished)
            #expect(try bed.contents() == bytes)
        }
    }

    /// A power cut has taken back what the list said of a part: its file goes with the next run, whatever becomes of the download.
    @Test func aPartThatTheListHasForgotten() async throws {
        let bed = try bed()
        let queue = try small(bed)
        let id = try await queue.add(bed.request()).id
        let name = PartialName(target: bed.path("file"), id: id)
        for number in [0, 7] {
            try ProtectedFile.createLarge(name.path(number), as: .completeUnlessOpen, keybag: bed.keybag).close()
        }
        try await queue.run(untilIdle: true)
        #expect(try bed.names() == ["file"])
    }
}

/// Small files whose runner is killed on the way into each system call. A slice of them.
@Suite(.serialized, .enabled(if: DownloadWorker.canTrace, "there is no strace(1) here that may trace"))
struct SmallFileKillTests {
    private static let length = 100_000

    private func added() async throws -> (DownloadBed, FaultServer, DownloadID) {
        let (bed, server) = (try DownloadBed(), try FaultServer())
        try server.answer("/file", Answer(length: Self.length))
        let id = try await DownloadQueue(bed.keybag).add(try bed.request(server)).id
        return (bed, server, id)
    }

    @Test(arguments: PublicationKillTests.calls) func killedAtEveryCall(_ call: String) async throws {
        var kills = 0
        for number in 1... where number == 1 || Effort.includes(number) {
            let (bed, server, id) = try await added()
            let wasKilled = try DownloadWorker.isKilled(bed, at: call, number)
            let moment: Comment = "\(call) \(number)"
            if try bed.names().contains("file") {
                #expect(try bed.contents() == Answer.pattern(0..<Self.length), moment)
                #expect(try bed.protectionClass() == .complete, moment)
            }
            #expect(try DownloadWorker.runUntilIdle(bed) == 0, moment)
            let download = try await bed.queue().download(id)
            #expect(download.state == .finished, "\(moment): \(String(describing: download.failure))")
            #expect(try bed.names() == ["file"], moment)
            #expect(try bed.contents() == Answer.pattern(0..<Self.length), moment)
            withExtendedLifetime(server) {}
            if !wasKilled { break }
            kills += 1
        }
        print("storm, download: a small file, at every \(call): \(kills) kills")
    }

    /// Power may go at any moment: the file is flushed before the list says what it is, and that is flushed before it has a name,
    /// which is flushed too.
    @Test func everythingIsFlushedBeforeWhatRestsOnIt() async throws {
        let (bed, server, id) = try await added()
        let log = bed.keybag.directory.removingLastComponent().appending("trace").string
        let process = try DownloadWorker.start(
            bed, "idle",
            wrapper: DownloadWorker.tracing(["pwrite64", "fsync", "fdatasync", "linkat"]) + ["-o", log])
        process.waitUntilExit()
        withExtendedLifetime((server, id)) {}
        let calls = try String(contentsOfFile: log, encoding: .utf8).split(separator: "\n")
        let link = try #require(calls.firstIndex { $0.contains("linkat(") && $0.contains(bed.directory.string) })
        func last(_ name: String, _ path: String, before end: Int) -> Int? {
            calls[..<end].lastIndex { $0.contains(name) && $0.contains(path) }
        }
        let note = try #require(last("pwrite64(", "queue.sqlite-wal", before: link))
        let noted = try #require(last("fdatasync(", "queue.sqlite-wal", before: link))
        // A file without a name is called after its number.
        let flushed = try #require(last("fsync(", bed.directory.string + "/#", before: link))
        let written = try #require(last("pwrite64(", bed.directory.string + "/#", before: link))
        let begun = calls[flushed..<link].firstIndex { $0.contains("pwrite64(") && $0.contains("queue.sqlite-wal") }
        #expect(written < flushed && note < noted && begun != nil)
        #expect(calls[link...].contains { $0.contains("fsync(") && $0.contains(bed.directory.string + ">") })
    }
}
