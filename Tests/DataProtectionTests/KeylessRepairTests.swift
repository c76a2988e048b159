import Glibc
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// Redo records put in their places without a key.
@Suite struct KeylessRepairTests {
    /// A file with records of a writer that was killed.
    private func makeUnclosed(_ bed: FileTestBed) throws -> FilePath {
        let path = try bed.make("f", .complete, pattern(1, count: 60_000))
        let worker = try StormProcess(bed.keybag.directory, ["serve"])
        for line in ["open w \(path)", "write 100 9000 2", "sync", "write 50000 20 3", "truncate 70000", "sync"] {
            #expect(try worker.ask(line).hasPrefix("ok"))
        }
        _ = try worker.kill(after: nil)
        return path
    }

    /// A file that has nothing to repair, and one that is not protected, are only read: not even their mode is touched.
    @Test func onlyLooks() throws {
        let bed = try FileTestBed()
        for path in [try bed.make("f", .complete, [1]), try bed.makePlain("plain", [1])] {
            try path.setMode(0o400)
            let before = try LowerFile(path, flags: O_RDONLY).status()
            usleep(20_000)
            _ = try? ProtectedFile.repair(fileAt: path)
            let after = try LowerFile(path, flags: O_RDONLY).status()
            #expect(before.st_ctim.tv_nsec == after.st_ctim.tv_nsec && before.st_ctim.tv_sec == after.st_ctim.tv_sec)
        }
    }

    /// Locked, with no key in the ring: the same contents, whether the records are still there or were lost afterwards.
    @Test func inPlace() throws {
        let bed = try FileTestBed()
        let path = try makeUnclosed(bed)
        let contents = try bed.read(path)
        let state = try StoredFile(path).state
        try bed.keybag.ring.evict(everything: true)
        #expect(try ProtectedFile.repair(fileAt: path) == state.overlay.count)
        #expect(try ProtectedFile.repair(fileAt: path) == state.overlay.count, "it can be done again")
        let stored = try path.contents()
        #expect(!state.overlay.isEmpty)
        for (index, place) in state.overlay {
            let home = Int(state.layout.home(index))
            #expect(stored[home..<home + place.length] == stored[Int(place.offset)..<Int(place.offset) + place.length])
        }
        #expect(try StoredFile(path).state.hasRecords, "they stay in force")
        try bed.enter(.unlocked)
        #expect(try bed.read(path) == contents)
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.write([1], at: 0)
        try file.close()
        #expect(try bed.read(path) == [1] + contents.dropFirst())
        try StoredFile(path).expectClosed()
    }

    @Test func refused() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, pattern(1, count: 60_000))
        #expect(try ProtectedFile.repair(fileAt: path) == 0)
        expectError("notProtected") { try ProtectedFile.repair(fileAt: try bed.makePlain("plain", [1, 2, 3])) }
        let stored = try path.contents()
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try writer.write([1], at: 0)
        #expect(try ProtectedFile.repair(fileAt: path) == 0, "nothing there to repair")
        try writer.sync()
        expectError("busy") { try ProtectedFile.repair(fileAt: path) }
        try writer.close()
        try path.overwrite(
            Array(stored.enumerated().map { $0.offset % 4096 == 100 && $0.offset < 8192 ? $0.element ^ 1 : $0.element })
        )
        expectError("damaged") { try ProtectedFile.repair(fileAt: path) }
    }
}
