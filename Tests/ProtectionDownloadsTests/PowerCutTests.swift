import Foundation
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// A power cut takes back what the list was told last without a flush; the files beside it may be newer than what it says.
@Suite struct PowerCutTests {
    private let old = noise(1_600_000, seed: 1)
    private let new = noise(1_600_000, seed: 2)

    /// The list as it is on disk now.
    private func copy(_ bed: DownloadBed) throws -> [String: Data] {
        let directory = bed.keybag.directory.appending("downloads").string
        let names = try FileManager.default.contentsOfDirectory(atPath: directory).filter {
            $0.hasPrefix("queue.sqlite")
        }
        // SQLite makes the shared memory anew from the log.
        return Dictionary(
            uniqueKeysWithValues: try names.filter { !$0.hasSuffix("-shm") }.map {
                ($0, try Data(contentsOf: URL(fileURLWithPath: "\(directory)/\($0)")))
            })
    }

    private func restore(_ files: [String: Data], _ bed: DownloadBed) throws {
        let directory = bed.keybag.directory.appending("downloads").string
        for suffix in ["", "-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: "\(directory)/queue.sqlite\(suffix)")
        }
        for (name, data) in files { try data.write(to: URL(fileURLWithPath: "\(directory)/\(name)")) }
    }

    /// Lists that were opened. A connection that is closed would take away the log of the one that was restored.
    private final class Opened { var queues: [DownloadQueue] = [] }
    private let opened = Opened()

    private func queue(_ bed: DownloadBed) throws -> DownloadQueue {
        let queue = try bed.queue()
        opened.queues.append(queue)
        return queue
    }

    /// What is found when the list, which has forgotten that everything began anew, is run again.
    struct Found: CaseIterable, CustomTestStringConvertible {
        /// How much of the new version had come: less than of the old one, or more.
        let length: Int
        /// Whether the server has the old version again.
        let isOld: Bool
        /// Whether the removal of the old part was taken back, too.
        let isPartBack: Bool
        let isLocked: Bool

        static let allCases = [300_000, 1_400_000].flatMap { length in
            [false, true].flatMap { isOld in
                [false, true].flatMap { isPartBack in
                    [false, true].map { Found(length: length, isOld: isOld, isPartBack: isPartBack, isLocked: $0) }
                }
            }
        }

        var testDescription: String { "\(length), old \(isOld), part \(isPartBack), locked \(isLocked)" }
    }

    /// Of two versions nothing is put together, nothing that is incomplete gets the name, and no part is left.
    @Test(arguments: Found.allCases) func theListForgetsThatItBeganAnew(_ found: Found) async throws {
        let bed = try DownloadBed()
        bed.server["file"] = .init(bytes: old, entityTag: "\"old\"")
        bed.server.answer(.reset(after: 1_200_000), .status(404, [:]))
        let first = try queue(bed)
        let id = try await first.add(bed.request()).id
        try await first.run(untilIdle: true)
        let before = try copy(bed)
        let part = bed.path(try #require(try bed.names().first)).string
        try FileManager.default.linkItem(atPath: part, toPath: part + "-kept")

        bed.server["file"] = .init(bytes: new, entityTag: "\"new\"")
        bed.server.answer(.reset(after: found.length), .status(404, [:]))
        try await first.resume(id)
        try await first.run(untilIdle: true)
        #expect(!FileManager.default.fileExists(atPath: part))
        #expect(FileManager.default.fileExists(atPath: part.dropLast() + "1"))

        try restore(before, bed)
        if found.isPartBack { try FileManager.default.moveItem(atPath: part + "-kept", toPath: part) }
        try? FileManager.default.removeItem(atPath: part + "-kept")
        if found.isOld { bed.server["file"] = .init(bytes: old, entityTag: "\"old\"") }
        let second = try queue(bed)
        #expect(try await second.download(id).received == 1_200_000)
        if found.isLocked { try bed.keybag.lock() }
        try await second.resume(id)
        try await second.run(untilIdle: true)
        if found.isLocked {
            try bed.unlock()
            try await second.run(untilIdle: true)
        }
        #expect(try await second.download(id).state == .finished)
        #expect(try bed.contents() == (found.isOld ? old : new))
        #expect(try bed.names() == ["file"])
    }
}
