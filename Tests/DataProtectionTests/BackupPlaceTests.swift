import Foundation
import Glibc
import Synchronization
import SystemPackage
import Testing

@testable import DataProtection

@Suite("The directory of a backup")
struct BackupPlaceTests {
    /// Another thread exchanges a link to a directory of ours and one to a directory that everybody may write to.
    @Test("Is the one that was checked, whatever a link leads to by then")
    func swappedLink() throws {
        let scratch = ScratchDirectory()
        let names = ["ours", "open", "link", "other"].map { scratch.path.appending($0) }
        let (ours, open, link, other) = (names[0], names[1], names[2], names[3])
        for directory in [ours, open] {
            try FileManager.default.createDirectory(atPath: directory.string, withIntermediateDirectories: false)
        }
        try ours.setMode(0o700)
        try open.setMode(0o777)
        try link.makeSymbolicLink(to: "ours")
        try other.makeSymbolicLink(to: "open")
        let directory = try LowerDirectory(scratch.path)
        let swapper = Swapper(directory)
        defer { swapper.stop() }
        let checked = try LowerDirectory(ours).status()
        var counts = (taken: 0, refused: 0)
        for _ in 0..<20_000 {
            do {
                let backup = try Backup(at: link, for: .backup)
                counts.taken += 1
                try #require(try backup.directory.status().isSameItem(as: checked))
            } catch DataProtectionError.keybagUnsafe {
                counts.refused += 1
            }
        }
        #expect(counts.taken > 0 && counts.refused > 0, "both were met")
    }

    /// Exchanges the two links all the time, on a thread of its own.
    private final class Swapper: Sendable {
        private let isOver = Atomic(false)
        private let hasEnded = DispatchSemaphore(value: 0)

        init(_ directory: LowerDirectory) {
            Thread.detachNewThread { [self] in
                while !isOver.load(ordering: .relaxed) { _ = try? directory.exchange("link", "other") }
                hasEnded.signal()
            }
        }

        func stop() {
            isOver.store(true, ordering: .relaxed)
            hasEnded.wait()
        }
    }
}
