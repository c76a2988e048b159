import Foundation
import ProtectionKeys
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// What has come and is of no use any more is removed, at once or by whoever runs the list next.
@Suite struct LostPartialTests {
    private let bytes = noise(1_600_000)

    private func bed() throws -> DownloadBed {
        let bed = try DownloadBed()
        bed.server["file"] = .init(bytes: bytes)
        return bed
    }

    /// A download that has failed, and of which bytes in the middle were altered: found when they are read for its checksum.
    private func altered(_ bed: DownloadBed, _ name: String, _ queue: DownloadQueue) async throws -> DownloadID {
        bed.server.answer(.reset(after: 1_200_000), .status(404, [:]))
        var request = bed.request(name)
        var digest = try RunningDigest(.sha256)
        try digest.update(bytes)
        request.checks = [.digest(.sha256, try digest.finish())]
        let id = try await queue.add(request).id
        try await queue.run(untilIdle: true)
        let directory = request.target.directory
        let partial = try #require(try FileManager.default.contentsOfDirectory(atPath: directory.string).first)
        let file = try #require(FileHandle(forUpdatingAtPath: directory.appending(partial).string))
        try file.seek(toOffset: 600_000)
        try file.write(contentsOf: Data(repeating: 1, count: 10))
        try file.close()
        return id
    }

    @Test(arguments: [true, false]) func alteredInTheMiddle(_ comesAgain: Bool) async throws {
        let bed = try bed()
        let queue = try bed.queue()
        let id = try await altered(bed, "file", queue)
        if !comesAgain { bed.server.answer(.none, .status(404, [:])) }
        try await queue.resume(id)
        try await queue.run(untilIdle: true)
        let ranges = bed.server.requests.suffix(2).map { $0.headers.contains { $0.name == "Range" } }
        #expect(ranges == [true, false])
        #expect(try await queue.download(id).state == (comesAgain ? .finished : .failed))
        #expect(try bed.names() == (comesAgain ? ["file"] : []))
        if comesAgain { #expect(try bed.contents() == bytes) }
    }

    private func makeDirectory(_ bed: DownloadBed) throws {
        bed.server["d/file"] = .init(bytes: bytes)
        try FileManager.default.createDirectory(atPath: bed.path("d").string, withIntermediateDirectories: false)
    }

    /// The directory leads nowhere any more as soon as so much of an answer was sent.
    private func takeDirectoryAway(_ bed: DownloadBed, at offset: Int) {
        let (d, e) = (bed.path("d").string, bed.path("e").string)
        bed.server.beforeEachPiece { sent in
            guard sent == offset else { return }
            try FileManager.default.moveItem(atPath: d, toPath: e)
            try FileManager.default.createSymbolicLink(atPath: d, withDestinationPath: "d")
        }
    }

    private func bringDirectoryBack(_ bed: DownloadBed) throws {
        bed.server.beforeEachPiece(nil)
        try FileManager.default.removeItem(atPath: bed.path("d").string)
        try FileManager.default.moveItem(atPath: bed.path("e").string, toPath: bed.path("d").string)
    }

    /// It begins anew only where its parts can be removed; the other downloads do not wait for that.
    @Test func alteredWhereNothingCanBeRemoved() async throws {
        let bed = try bed()
        let queue = try bed.queue()
        try makeDirectory(bed)
        let id = try await altered(bed, "d/file", queue)
        takeDirectoryAway(bed, at: 350_000)
        try await queue.resume(id)
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(id).failure?.kind == .disk)
        try bringDirectoryBack(bed)
        #expect(try await bed.result().state == .finished)
        try await queue.resume(id)
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(id).state == .finished)
        #expect(try FileManager.default.contentsOfDirectory(atPath: bed.path("d").string) == ["file"])
    }

    /// Another checksum, and a directory that cannot be read at that moment.
    @Test func nothingCanBeRemovedNow() async throws {
        let bed = try bed()
        try makeDirectory(bed)
        takeDirectoryAway(bed, at: 1_500_000)
        var request = bed.request("d/file")
        request.checks = [.digest(.sha256, [UInt8](repeating: 0, count: 32))]
        let download = try await bed.result(request)
        #expect(download.state == .failed && download.failure?.kind == .checksum)
        try bringDirectoryBack(bed)
        #expect(try FileManager.default.contentsOfDirectory(atPath: bed.path("d").string).count == 1)
        try await bed.runUntilIdle()
        #expect(try FileManager.default.contentsOfDirectory(atPath: bed.path("d").string) == [])
    }

    /// Somebody has put another file where the finished one waits for its name.
    @Test func anotherFileInItsPlace() async throws {
        let bed = try bed()
        let queue = try bed.queue()
        let id = try await queue.add(bed.request()).id
        try await queue.run(untilIdle: true)
        let temporary = FilePath(bytes: try #require(try queue.store.record(id).result).temporary)
        try FileManager.default.removeItem(atPath: bed.path("file").string)
        try bed.put([1], temporary.lastComponent!.string, as: .completeUnlessOpen)
        try queue.store.write { try $0.execute(sql: "UPDATE downloads SET state = 1") }
        let part = SegmentRecord(
            number: 0, start: 0, synced: UInt64(bytes.count), fileID: try queue.store.record(id).result?.fileID)
        try queue.store.note(PartialRecord(resource: ResourceIdentity(), parts: [part]), of: id)
        try queue.store.write { try $0.execute(sql: "UPDATE downloads SET state = 3") }
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(id).failure?.kind == .lost)
        try await queue.resume(id)
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(id).state == .finished)
        #expect(try bed.contents() == bytes)
        #expect(try bed.names() == ["file"])
    }

    /// The list calls a file whole that no longer exists. That does not count as a failure of the next try.
    @Test func wholeAndGone() async throws {
        let bed = try bed()
        let queue = try bed.queue()
        var request = bed.request()
        request.retry.maximumFailures = 1
        let id = try await queue.add(request).id
        let part = SegmentRecord(
            number: 0, start: 0, synced: UInt64(bytes.count), fileID: [UInt8](repeating: 1, count: 16))
        let record = PartialRecord(
            resource: ResourceIdentity(length: UInt64(bytes.count)), parts: [part], isWhole: true)
        try queue.store.note(record, of: id)
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(id).failure == nil)
        #expect(try bed.contents() == bytes)
        #expect(try bed.names() == ["file"])
    }
}
