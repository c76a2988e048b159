import Foundation
import GRDB
import ProtectionKeys
import TestEffort
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// Killed on the way into each system call by which parts become one file, it is checked, gets its name and its class.
/// A slice of them.
@Suite(.serialized, .enabled(if: DownloadWorker.canTrace, "there is no strace(1) here that may trace"))
struct PublicationKillTests {
    private static let bytes = noise(200_000)
    /// All calls by which a file, a directory or the list changes.
    static let calls = [
        "pwrite64", "fdatasync", "fsync", "linkat", "renameat2", "rename", "unlink", "unlinkat", "ftruncate",
    ]

    /// A download of which every byte is there, in two parts.
    private func whole() async throws -> (DownloadBed, DownloadID) {
        let bed = try DownloadBed()
        var sum = try RunningDigest(.sha256)
        try sum.update(Self.bytes)
        var request = bed.request()
        request.checks = [.digest(.sha256, try sum.finish())]
        let queue = try bed.queue()
        let id = try await queue.add(request).id
        let name = PartialName(target: bed.path("file"), id: id)
        let resource = ResourceIdentity(length: UInt64(Self.bytes.count))
        var partial = PartialRecord(resource: resource, parts: [], isWhole: true)
        for (number, range) in [0..<120_000, 120_000..<Self.bytes.count].enumerated() {
            let file = try ProtectedFile.createLarge(name.path(number), as: .completeUnlessOpen, keybag: bed.keybag)
            try Self.bytes[range].withUnsafeBytes { try file.write($0, at: 0) }
            partial.parts.append(
                try SegmentRecord(
                    number: number, start: UInt64(range.lowerBound), synced: UInt64(range.count), in: file, of: id))
            try file.close()
        }
        try queue.store.note(partial, of: id)
        return (bed, id)
    }

    /// Whatever was left: under the name is nothing, or everything; and the next run ends with everything, once.
    private func expectWhole(_ bed: DownloadBed, _ id: DownloadID, _ moment: Comment, isLocked: Bool = false)
        async throws
    {
        if !isLocked, try bed.names().contains("file") { #expect(try bed.contents() == Self.bytes, moment) }
        #expect(try DownloadWorker.runUntilIdle(bed) == 0, moment)
        #expect(try await bed.queue().download(id).state == .finished, moment)
        let names = try bed.names()
        #expect(names == ["file"], moment)
        if isLocked {
            #expect(try bed.protectionClass() == .completeUnlessOpen, moment)
            try bed.unlock()
        }
        try bed.keybag.performQueuedWork()
        #expect(try bed.protectionClass() == .complete, moment)
        #expect(try bed.contents() == Self.bytes, moment)
        // The note of a class change that was interrupted goes with the next lock.
        try bed.keybag.lock()
        for directory in ["queue", "changing"] {
            let path = bed.keybag.directory.appending(directory).string
            #expect((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? [] == [], moment)
        }
    }

    @Test(arguments: calls) func killedAtEveryCall(_ call: String) async throws {
        var kills = 0
        for number in 1... where number == 1 || Effort.includes(number) {
            let (bed, id) = try await whole()
            let wasKilled = try DownloadWorker.isKilled(bed, at: call, number)
            try await expectWhole(bed, id, "\(call) \(number)")
            if !wasKilled { break }
            kills += 1
        }
        print("storm, download: publication, at every \(call): \(kills) kills")
    }

    /// Killed right before the rename, then while locked again: it gets its name without any key, and its class later.
    @Test(arguments: ["renameat2", "fsync", "fdatasync", "pwrite64", "linkat"])
    func killedWhileLocked(_ call: String) async throws {
        var kills = 0
        for number in 1... where number == 1 || Effort.includes(number) {
            let (bed, id) = try await whole()
            #expect(try DownloadWorker.isKilled(bed, at: "renameat2", 1))
            try bed.keybag.lock()
            let wasKilled = try DownloadWorker.isKilled(bed, at: call, number)
            try await expectWhole(bed, id, "\(call) \(number), locked", isLocked: true)
            if !wasKilled { break }
            kills += 1
        }
        print("storm, download: publication while locked, at every \(call): \(kills) kills")
    }
}
