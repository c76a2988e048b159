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

    /// Bytes in the middle of a partial were altered: found when it is read for its checksum, and then everything comes again.
    @Test(arguments: [true, false]) func alteredInTheMiddle(_ comesAgain: Bool) async throws {
        let bed = try bed()
        bed.server.answer(.reset(after: 1_200_000), .status(404, [:]))
        var request = bed.request()
        var digest = try RunningDigest(.sha256)
        try digest.update(bytes)
        request.checks = [.digest(.sha256, try digest.finish())]
        let queue = try bed.queue()
        let id = try await queue.add(request).id
        try await queue.run(untilIdle: true)
        let partial = try #require(try bed.names().first)
        let file = try #require(FileHandle(forUpdatingAtPath: bed.path(partial).string))
        try file.seek(toOffset: 600_000)
        try file.write(contentsOf: Data(repeating: 1, count: 10))
        try file.close()

        if !comesAgain { bed.server.answer(.none, .status(404, [:])) }
        try await queue.resume(id)
        try await queue.run(untilIdle: true)
        let ranges = bed.server.requests.suffix(2).map { $0.headers.contains { $0.name == "Range" } }
        #expect(ranges == [true, false])
        #expect(try await queue.download(id).state == (comesAgain ? .finished : .failed))
        #expect(try bed.names() == (comesAgain ? ["file"] : []))
        if comesAgain { #expect(try bed.contents() == bytes) }
    }

    /// Another checksum, and a directory that cannot be read at that moment.
    @Test func nothingCanBeRemovedNow() async throws {
        let bed = try bed()
        bed.server["d/file"] = .init(bytes: bytes)
        try FileManager.default.createDirectory(atPath: bed.path("d").string, withIntermediateDirectories: false)
        bed.server.beforeEachPiece { sent in
            guard sent == 1_500_000 else { return }
            try FileManager.default.moveItem(atPath: bed.path("d").string, toPath: bed.path("e").string)
            try FileManager.default.createSymbolicLink(atPath: bed.path("d").string, withDestinationPath: "d")
        }
        var request = bed.request("d/file")
        request.checks = [.digest(.sha256, [UInt8](repeating: 0, count: 32))]
        let download = try await bed.result(request)
        #expect(download.state == .failed && download.failure?.kind == .checksum)
        try FileManager.default.removeItem(atPath: bed.path("d").string)
        try FileManager.default.moveItem(atPath: bed.path("e").string, toPath: bed.path("d").string)
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
        try queue.store.write { database in
            try database.execute(sql: "UPDATE downloads SET state = 3")
            try database.execute(
                sql: "INSERT INTO segments SELECT id, 0, 0, \(bytes.count) FROM downloads")
        }
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(id).failure?.kind == .lost)
        try await queue.resume(id)
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(id).state == .finished)
        #expect(try bed.contents() == bytes)
        #expect(try bed.names() == ["file"])
    }
}
