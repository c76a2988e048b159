import Foundation
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

/// What must not make queued work disappear: disks that are away, device numbers of another boot, full disks, stuck processes.
@Suite struct QueueLossTests {
    /// A log and a segment of it, unlocked again.
    private func bedWithSegment() throws -> FileTestBed {
        let bed = try FileTestBed()
        try FileManager.default.createDirectory(atPath: bed.path("d").string, withIntermediateDirectories: false)
        try bed.log("1", to: "d/log")
        try bed.keybag.lock()
        try bed.log("2", to: "d/log")
        try bed.enter(.unlocked)
        return bed
    }

    /// Makes the only note say that its file is on another device.
    private func moveNote(_ bed: FileTestBed) throws {
        let name = try #require(try bed.keybag.directory.appending("queue").names().first)
        let note = bed.keybag.directory.appending("queue").appending(name)
        let device = try LowerFile(bed.directory, flags: O_RDONLY).status().st_dev
        let parts = try note.contents().split(separator: 0, omittingEmptySubsequences: false)
        let moved = parts.map { $0.elementsEqual("\(device)".utf8) ? ArraySlice("\(device + 1)".utf8) : $0 }
        try note.overwrite(Array(moved.joined(separator: [0])))
    }

    /// st_dev is given anew at each boot: LVM, btrfs, NFS, sticks.
    @Test func aDeviceNumberIsNothingToRelyOn() throws {
        let bed = try bedWithSegment()
        try moveNote(bed)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try bed.text(bed.path("d/log")) == "1\n2\n")
        #expect(try bed.path("d").names() == ["log"])
        // And a file that was renamed meanwhile.
        try bed.keybag.lock()
        try ProtectedFile.create(
            bed.path("part"), as: .completeUnlessOpen, raiseTo: .complete, keybag: bed.keybag
        ).close()
        try AtomicReplace.rename(bed.path("part"), to: bed.path("f"))
        try bed.enter(.unlocked)
        try moveNote(bed)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try ProtectedFileInfo(of: bed.path("f")).protectionClass == .complete)
    }

    /// The directory on which a disk is mounted is there without the disk.
    @Test func aDiskThatIsNotMounted() throws {
        let bed = try bedWithSegment()
        try moveNote(bed)
        try AtomicReplace.rename(bed.path("d"), to: bed.path("disk"))
        try FileManager.default.createDirectory(atPath: bed.path("d").string, withIntermediateDirectories: false)
        for _ in 0..<2 { try bed.keybag.performQueuedWork() }
        #expect(try bed.keybag.queuedWork().map(\.lastError) == [.noSuchFileOrDirectory])
        try bed.path("d").remove()
        try AtomicReplace.rename(bed.path("disk"), to: bed.path("d"))
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try bed.text(bed.path("d/log")) == "1\n2\n")
    }

    /// A join that was begun is not taken for done because its disk is away, or its directory has another name.
    @Test(
        .enabled(if: StormProcess.canKillAtCalls, "there is no strace(1) here that may trace"),
        arguments: [true, false])
    func aJoinThatWasBegun(_ isUnmounted: Bool) throws {
        let bed = try bedWithSegment()
        // The note's fsync is the first: killed right behind it.
        let call = StormProcess.Call(name: "fdatasync", number: 1)
        _ = try StormProcess(bed, "join", seed: 0, first: 0, ["-"], until: call).killed(after: nil)
        #expect(try bed.path("d").names() == ["log", "log.segment-1"])
        if isUnmounted { try moveNote(bed) }
        try AtomicReplace.rename(bed.path("d"), to: bed.path("disk"))
        let outcomes = try bed.keybag.performQueuedWork().map(\.outcome)
        #expect(outcomes != [.done])
        if isUnmounted {
            try AtomicReplace.rename(bed.path("disk"), to: bed.path("d"))
            #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
            #expect(try bed.text(bed.path("d/log")) == "1\n2\n")
        } else {
            #expect(outcomes == [.gone])
            #expect(bed.bag.warnings.unusual.map(\.caseName) == ["queuedFileGone"])
        }
    }

    /// A directory that was deleted does not leave a note for ever.
    @Test func aDirectoryThatWasDeleted() throws {
        let bed = try bedWithSegment()
        try bed.path("d").remove()
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.gone])
        #expect(bed.keybag.queuedWorkCount == 0)
        #expect(bed.bag.warnings.unusual.map(\.caseName) == ["queuedFileGone"])
    }

    /// Nobody reads the warnings of a process in the background: there the note stays, and is seen in the list.
    @Test func nothingIsDroppedInTheBackground() throws {
        let bed = try bedWithSegment()
        try bed.keybag.lock()
        try bed.log("3", to: "d/log")
        try bed.enter(.unlocked)
        try bed.path("d/log.segment-1").remove()
        for _ in 0..<2 {
            let results = try bed.keybag.performQueuedWork(keepingLost: true)
            #expect(results.first?.outcome == .gone)
        }
        #expect(try bed.text(bed.path("d/log")) == "1\n3\n", "later segments do not wait for it")
        #expect(try bed.keybag.queuedWork().map(\.lastError) == [.noSuchFileOrDirectory])
        #expect(bed.bag.warnings.unusual == [])
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.gone])
        #expect(bed.keybag.queuedWorkCount == 0)
    }

    /// Somebody may sit on a file's lock for ever.
    @Test(.timeLimit(.minutes(20))) func aStuckProcessHoldsNothingElseUp() throws {
        let bed = try bedWithSegment()
        try bed.keybag.lock()
        try ProtectedFile.create(
            bed.path("f"), as: .completeUnlessOpen, raiseTo: .complete, keybag: bed.keybag
        ).close()
        try bed.enter(.unlocked)
        let log = try LowerFile(bed.path("d/log"), flags: O_RDWR)
        #expect(try log.tryByteLock(OpenFile.slotLock, .exclusive))
        let file = try LowerFile(bed.path("f"), flags: O_RDWR)
        #expect(try file.tryByteLock(OpenFile.slotLock, .exclusive))
        // Each look at the clock moves it, so that nothing is waited for until it is over.
        let busy = try Clock.$lead.withValue(Clock.Lead(step: 1_000_000_000)) { try bed.keybag.performQueuedWork() }
        #expect(busy.map(\.outcome.isOver) == [false, false])
        try log.unlockByte(OpenFile.slotLock)
        try file.unlockByte(OpenFile.slotLock)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done, .done])
    }

    /// A full disk must not leave a note for each line that could not be written.
    @Test(
        .enabled(if: StormProcess.canKillAtCalls, "there is no strace(1) here that may trace"),
        arguments: ["log", "raise"])
    func whatHasNoNameLeavesNoNote(_ workload: String) throws {
        let bed = try FileTestBed(state: .locked)
        // The first name is the note's, the second one the file's.
        let call = StormProcess.Call(name: "linkat", number: 2, error: "ENOSPC")
        let path = workload == "log" ? bed.path("log") : bed.directory
        if workload == "log" {
            try bed.enter(.unlocked)
            try ProtectedFile.create(path, as: .completeUnlessOpen, keybag: bed.keybag).close()
            try bed.keybag.lock()
        }
        let worker = try StormProcess(bed, workload, seed: 0, first: 0, [path.string], until: call)
        #expect(throws: StormProcess.Failed.self) { try worker.acknowledgement() }
        #expect(bed.keybag.queuedWorkCount == 0)
    }

    /// However often a join is begun, the last beginning is read.
    @Test func longNotes() throws {
        let bed = try FileTestBed()
        let directory = FilePath(
            "/" + Array(repeating: String(repeating: "n", count: 200), count: 19).joined(separator: "/"))
        let file = FileReference(
            device: 1, inode: 2, path: directory.appending("log"), fileID: try FileID(bytes: 0..<16))
        var note = try QueueNote(.join(file, log: file.path, seal: []), in: bed.keybag.directory)
        for number in 0..<40 as Range<UInt64> {
            try note.add(.begun(file, offset: number, from: 0, count: 1, seal: Array(1..<29)))
            try note.add(.failed(.noSpace, at: number))
        }
        let read = try #require(try QueueNote(note.number, in: bed.keybag.directory, holding: false))
        #expect(read.records == note.records)
        #expect(read.records.count == 42, "a failure is of no interest after the next try")
    }
}
