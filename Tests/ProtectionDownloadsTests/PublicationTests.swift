import Foundation
import GRDB
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// A process that is killed between two lines of publishing, and what the next one makes of it; and parts that are joined twice.
@Suite struct PublicationTests {
    private let bytes = noise(200_000)

    /// A finished download of which the list says that it is about to be published.
    private func publishing(_ bed: DownloadBed, renamed: Bool) async throws -> DownloadID {
        bed.server["file"] = .init(bytes: bytes)
        let queue = try bed.queue()
        let download = try await queue.add(bed.request())
        if !renamed { try bed.keybag.lock() }  // so that it keeps its class
        try await queue.run(untilIdle: true)
        let result = try #require(try queue.store.record(download.id).result)
        if !renamed {
            let temporary = FilePath(bytes: result.temporary)
            try FileManager.default.moveItem(atPath: bed.path("file").string, toPath: temporary.string)
        }
        try queue.store.write { try $0.execute(sql: "UPDATE downloads SET state = 3") }
        return download.id
    }

    @Test(arguments: [ProtectionState.unlocked, .locked]) func killedBeforeTheRename(_ state: ProtectionState)
        async throws
    {
        let bed = try DownloadBed()
        let id = try await publishing(bed, renamed: false)
        if state == .unlocked { try bed.unlock() }
        try await bed.runUntilIdle()
        #expect(try await bed.queue().download(id).state == .finished)
        #expect(try bed.names() == ["file"])
        try bed.unlock()
        try bed.keybag.performQueuedWork()
        #expect(try bed.protectionClass() == .complete)
        #expect(try bed.contents() == bytes)
        #expect(bed.server.requests.count == 1)
    }

    /// The queue of the keybag has raised it already, under its temporary name.
    @Test func raisedBeforeTheRename() async throws {
        let bed = try DownloadBed()
        let id = try await publishing(bed, renamed: false)
        try bed.unlock()
        try bed.keybag.performQueuedWork()
        let temporary = try #require(try bed.names().first)
        #expect(try bed.protectionClass(temporary) == .complete)
        try bed.keybag.lock()
        try await bed.runUntilIdle()
        #expect(try await bed.queue().download(id).state == .finished)
        #expect(try bed.names() == ["file"])
        try bed.unlock()
        #expect(try bed.contents() == bytes)
    }

    /// What another program has appended to a protected file is not lost when that is replaced.
    @Test(arguments: memories) func appendedBytesOfWhatIsReplaced(_ memory: Int) async throws {
        let bed = try DownloadBed()
        bed.server["file"] = .init(bytes: bytes)
        #expect(try await bed.result(memory: memory).state == .finished)
        let appended = Data("a line of a log, in clear\n".utf8)
        let file = try #require(FileHandle(forWritingAtPath: bed.path("file").string))
        try file.seekToEnd()
        try file.write(contentsOf: appended)
        try file.close()
        var request = bed.request()
        request.replacesExisting = true
        #expect(try await bed.result(request, memory: memory).state == .finished)
        #expect(try bed.names() == ["file", "file.appended-1"])
        #expect(try Data(contentsOf: URL(fileURLWithPath: bed.path("file.appended-1").string)) == appended)
        #expect(try bed.contents() == bytes)
    }

    /// A small file of which all was in memory too.
    @Test(arguments: memories) func isNotWeakerThanWhatIsReplaced(_ memory: Int) async throws {
        let bed = try DownloadBed()
        bed.server["file"] = .init(bytes: bytes)
        try bed.unlock()
        #expect(try await bed.result(memory: memory).state == .finished)
        #expect(try bed.protectionClass() == .complete)
        for weaker in [ProtectionClass.completeUnlessOpen, .completeUntilFirstUserAuthentication, .none] {
            var request = bed.request()
            (request.replacesExisting, request.protectionClass) = (true, weaker)
            #expect(try await bed.result(request, memory: memory).state == .finished)
            #expect(try bed.protectionClass() == .complete, "\(weaker)")
            #expect(try bed.contents() == bytes)
        }
    }

    /// What somebody is about to commit to the file that is replaced would be lost: a small file waits for that as a large one does.
    @Test(arguments: memories) func waitsWhileSomebodyWrites(_ memory: Int) async throws {
        let bed = try DownloadBed()
        bed.server["file"] = .init(bytes: bytes)
        #expect(try await bed.result(memory: memory).state == .finished)
        let writer = try ProtectedFile.open(bed.path("file"), .readWrite, keybag: bed.keybag)
        try [UInt8]([1]).withUnsafeBytes { try writer.write($0, at: 0) }
        let before = try ProtectedFile.fileID(at: bed.path("file"))
        var request = bed.request()
        request.replacesExisting = true
        let queue = try bed.queue(memory: memory)
        let download = try await queue.add(request)
        let run = Task { try await queue.run(untilIdle: true) }
        var state = DownloadState.queued
        for _ in 0..<3000 where ![.publishing, .finished, .failed].contains(state) {
            try await Task.sleep(for: .milliseconds(10))
            state = try queue.store.record(download.id).state
        }
        #expect(try ProtectedFile.fileID(at: bed.path("file")) == before, "it is \(state)")
        try writer.close()
        try await run.value
        #expect(try await queue.download(download.id).state == .finished)
        #expect(try bed.contents() == bytes)
        #expect(try bed.names() == ["file"])
    }

    @Test func killedAfterTheRename() async throws {
        let bed = try DownloadBed()
        let id = try await publishing(bed, renamed: true)
        try await bed.runUntilIdle()
        #expect(try await bed.queue().download(id).state == .finished)
        #expect(try bed.contents() == bytes)
        #expect(try bed.names() == ["file"])
    }

    /// The queue of the keybag may be long: what else waits in it is for who unlocks.
    @Test(arguments: [true, false]) func onlyItsOwnRaise(_ renamed: Bool) async throws {
        let bed = try DownloadBed(.locked)
        for name in ["other", "file"] {
            bed.server[name] = .init(bytes: bytes)
            #expect(try await bed.result(bed.request(name)).state == .finished)
        }
        try bed.unlock()
        if renamed {
            try bed.queue().store.write { try $0.execute(sql: "UPDATE downloads SET state = 3 WHERE position = 2") }
            try await bed.runUntilIdle()
        } else {
            bed.server["third"] = .init(bytes: bytes)
            #expect(try await bed.result(bed.request("third")).state == .finished)
            #expect(try bed.protectionClass("third") == .complete)
        }
        #expect(try bed.protectionClass("file") == (renamed ? .complete : .completeUnlessOpen))
        #expect(try bed.protectionClass("other") == .completeUnlessOpen)
        try bed.keybag.performQueuedWork()
        #expect(try ["other", "file"].allSatisfy { try bed.protectionClass($0) == .complete })
    }

    @Test func somebodyTookItsName() async throws {
        let bed = try DownloadBed()
        let id = try await publishing(bed, renamed: false)
        try Data("mine".utf8).write(to: URL(fileURLWithPath: bed.path("file").string))
        try await bed.runUntilIdle()
        #expect(try await bed.queue().download(id).failure?.kind == .targetExists)
        #expect(try Data(contentsOf: URL(fileURLWithPath: bed.path("file").string)) == Data("mine".utf8))
        #expect(try bed.names().count == 2)
    }

    @Test func neitherIsThere() async throws {
        let bed = try DownloadBed()
        let id = try await publishing(bed, renamed: true)
        try FileManager.default.removeItem(atPath: bed.path("file").string)
        try await bed.runUntilIdle()
        #expect(try await bed.queue().download(id).failure?.kind == .lost)
        // Nobody can stop it half way.
        try bed.queue().store.write { try $0.execute(sql: "UPDATE downloads SET state = 3") }
        await #expect(throws: DownloadError.self) { try await bed.queue().pause(id) }
        await #expect(throws: DownloadError.self) { try await bed.queue().cancel(id) }
    }

    // MARK: parts

    /// The first part has more than was noted of it; a third one was noted and never made.
    @Test func partsOverlap() throws {
        let bed = try DownloadBed()
        let name = PartialName(target: bed.path("file"), id: DownloadID("00112233445566778899aabbccddeeff")!)
        func part(
            _ number: Int, _ range: Range<Int>, synced: UInt64,
            as protectionClass: ProtectionClass = .completeUnlessOpen
        ) throws -> SegmentRecord {
            let file = try ProtectedFile.createLarge(name.path(number), as: protectionClass, keybag: bed.keybag)
            try bytes[range].withUnsafeBytes { try file.write($0, at: 0) }
            defer { try? file.close() }
            return try SegmentRecord(
                number: number, start: UInt64(range.lowerBound), synced: synced, in: file, of: name.id)
        }
        let records = [
            try part(3, 0..<150_000, synced: 70_001), try part(4, 70_001..<120_000, synced: 49_999),
            SegmentRecord(number: 5, start: 120_000, synced: 0), try part(6, 120_000..<200_000, synced: 1000),
        ]
        let chain = SegmentChain(name: name, keybag: bed.keybag)
        for _ in 0..<2 {
            let file = try chain.join(records)
            #expect(Array(try file.read(300_000, at: 0)) == bytes)
            try file.close()
        }
        #expect(try name.numbers().sorted() == [3, 4, 6])
        // A gap, a part that is shorter than noted, and one that has gone.
        var broken = records
        broken[3].start = 120_001
        #expect(throws: DataProtectionError.self) { try chain.join(broken) }
        broken[3].synced = 80_001
        #expect(throws: DataProtectionError.self) { try chain.join(broken) }
        try name.removeAll(but: [3, 6])
        #expect(throws: DataProtectionError.self) { try chain.join(records) }
        // A seal of another part, none, and a first part from which a stronger one would be read while locked.
        let seals = [records[3].seal, nil, records[0].seal]
        for (seal, isGood) in zip(seals, [false, false, true]) {
            var first = records[0]
            first.seal = seal
            #expect(((try? chain.join([first]).close()) != nil) == isGood)
        }
        let weaker = [
            try part(7, 0..<70_001, synced: 70_001, as: .none), try part(8, 70_001..<120_000, synced: 49_999),
        ]
        #expect(throws: DataProtectionError.self) { try chain.join(weaker) }
        let weak = try ProtectedFile.open(name.path(7), keybag: bed.keybag)
        #expect(try weak.size() == 70_001, "nothing was copied into it")
    }

    @Test func longNames() throws {
        for length in [1, 180, 255] {
            let target = FilePath("/tmp/\(String(repeating: "ü", count: length / 2))x")
            let name = PartialName(target: target, id: DownloadID("00112233445566778899aabbccddeeff")!)
            #expect(name.path(1_000_000).lastComponent!.string.utf8.count <= 255)
        }
    }

    @Test func erasingTheKeybagTakesTheList() async throws {
        let bed = try DownloadBed()
        do { _ = try await bed.queue().add(bed.request()) }
        #expect(try KeybagErasure(at: bed.keybag.directory).perform() == [])
        #expect(!FileManager.default.fileExists(atPath: bed.keybag.directory.string))
    }
}
