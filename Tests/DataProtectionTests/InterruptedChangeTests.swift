import Glibc
import ProtectionFormat
import Testing

@testable import DataProtection

/// What a class change that died between its two slots leaves, and who mends it.
@Suite struct InterruptedChangeTests {
    private func interrupted(_ bed: FileTestBed) throws -> FilePath {
        let path = bed.path("f")
        try bed.keybag.leaveChangeUnfinished(at: path)
        return path
    }

    private func wraps(_ path: FilePath) throws -> Set<[UInt8]> { try path.wraps() }

    @Test(arguments: [nil, "g"]) func aLockFinishesIt(newName: String?) throws {
        let bed = try FileTestBed()
        var path = try interrupted(bed)
        if let newName {
            try AtomicReplace.rename(path, to: bed.path(newName))
            path = bed.path(newName)
        }
        let before = try wraps(path)
        #expect(before.count == 2)
        try bed.keybag.lock()
        let after = try wraps(path)
        #expect(after.count == 1)
        #expect(bed.notes.isEmpty)
        #expect(try ProtectedFileInfo(of: path).protectionClass == .complete)
        try bed.bag.unlock()
        #expect(try bed.read(path) == [1, 2, 3])
    }

    /// The note is flushed, then its directory, where the old class opens while locked: a power cut must not forget it.
    @Test(
        .enabled(if: StormProcess.canKillAtCalls, "there is no strace(1) here that may trace"), arguments: 1...2)
    func withoutALastingNoteNothingIsBegun(_ number: Int) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .completeUntilFirstUserAuthentication, [1, 2, 3])
        let before = try path.contents()
        let call = StormProcess.Call(name: "fsync", number: number, error: "EIO")
        let classes = ["first-unlock", "complete"]
        let worker = try StormProcess(bed, "class", seed: 0, first: 1, [path.string] + classes, until: call)
        #expect(throws: StormProcess.Failed.self) { _ = try worker.acknowledgement() }
        #expect(try path.contents() == before)
    }

    /// Without the note of the change, which a lowering may do without, that of the queue is enough.
    @Test func theQueueFinishesItToo() throws {
        let bed = try FileTestBed()
        let path = try interrupted(bed)
        for note in bed.notes { try bed.keybag.directory.appending("changing").appending(note).remove() }
        let file = try LowerFile(path, flags: O_RDWR)
        let reference = try FileReference(file, try #require(try file.fileID()), named: path)
        _ = try QueueNote(
            .raise(reference, from: .completeUntilFirstUserAuthentication, to: .complete), in: bed.keybag.directory)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.unneeded])
        #expect(try wraps(path).count == 1)
        #expect(try bed.read(path) == [1, 2, 3])
    }

    @Test func aFileThatSomebodyWritesToIsNotReplaced() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, [1])
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.write([2], at: 0)
        #expect(throws: DataProtectionError.busy(path)) { try ProtectedFileWriter(path, keybag: bed.keybag) }
        try file.close()
        try bed.makeWhole("f", .complete, [3])
        #expect(try bed.read(path) == [3])
    }
}
