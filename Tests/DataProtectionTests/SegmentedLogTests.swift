import Foundation
import SystemPackage
import Testing

@testable import DataProtection

/// A log that goes on in segments while it is locked or in use, and is one again afterwards.
@Suite struct SegmentedLogTests {
    @Test func segmentsWhileLockedAreJoinedInOrder() throws {
        let bed = try FileTestBed()
        try bed.log("1")
        try bed.keybag.lock()
        for line in ["2", "3", "4"] { try bed.log(line) }
        #expect(try bed.names() == ["log", "log.segment-1", "log.segment-2", "log.segment-3"])
        #expect(bed.keybag.queuedWorkCount == 3)
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done, .done, .done])
        #expect(try bed.text(bed.path("log")) == "1\n2\n3\n4\n")
        #expect(try bed.names() == ["log"])
        #expect(bed.keybag.queuedWorkCount == 0)
        #expect(try ProtectedFileInfo(of: bed.path("log")).protectionClass == .completeUnlessOpen)
        try StoredFile(bed.path("log")).expectClosed()
        #expect(bed.bag.warnings.unusual == [])
    }

    /// Anybody who can write to the directory can take the highest number.
    @Test func theHighestNumberIsTaken() throws {
        let bed = try FileTestBed()
        try bed.log("1")
        for number in [UInt64.max, FreeNumber.end - 1] { try bed.makePlain("log.segment-\(number)", []) }
        try bed.keybag.lock()
        for line in ["2", "3"] { try bed.log(line) }
        #expect(Set(try bed.names()).isSuperset(of: ["log.segment-1", "log.segment-2"]))
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done, .done])
        #expect(try bed.text(bed.path("log")) == "1\n2\n3\n")
    }

    /// Another user may own a directory above, and change where the path of the log leads.
    @Test func rotationInTheOpenDirectory() throws {
        let place = ScratchDirectory()
        let (logs, others) = (place.path.appending("logs"), place.path.appending("others"))
        for directory in [logs, others] {
            try FileManager.default.createDirectory(atPath: directory.string, withIntermediateDirectories: false)
            for name in ["log", "log.1"] { try directory.appending(name).overwrite(Array(name.utf8)) }
        }
        let open = try LowerDirectory(logs)
        let own = try LowerFile(logs.appending("log"), flags: O_RDONLY)
        let entry = DirectoryEntry("log", in: open)
        #expect(try entry.leads(to: own))
        try AtomicReplace.rename(logs, to: place.path.appending("moved"))
        try AtomicReplace.rename(others, to: logs)
        #expect(try entry.leads(to: own) && !DirectoryEntry(logs.appending("log")).leads(to: own))
        try RotatedLog(logs.appending("log")).rotate(keeping: 2, in: open)
        #expect(try logs.names() == ["log", "log.1"])
        #expect(try place.path.appending("moved").names() == ["log.1", "log.2"])
        #expect(try place.path.appending("moved/log.2").contents() == Array("log.1".utf8))
    }

    @Test(arguments: [ProtectionState.locked, .beforeFirstUnlock]) func begunWhileLocked(_ state: ProtectionState)
        throws
    {
        let bed = try FileTestBed(state: state)
        try bed.log("1")
        try bed.log("2")
        #expect(try bed.names() == ["log", "log.segment-1"])
        try bed.bag.unlock()
        try bed.log("3")  // whoever opens it next joins what waits
        #expect(try bed.text(bed.path("log")) == "1\n2\n3\n")
        #expect(try bed.names() == ["log"])
    }

    @Test func anOpenLogGoesOnThroughALock() throws {
        let bed = try FileTestBed()
        let open = try SegmentedLog(bed.path("log"), keybag: bed.keybag)
        try open.append(line: "1")
        try bed.keybag.lock()
        try open.append(line: "2")
        #expect(try bed.names() == ["log"])
        // Another one of the same log has a segment of its own, which is not joined while it is written to.
        let other = try SegmentedLog(bed.path("log"), keybag: bed.keybag)
        try other.append(line: "a")
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.inUse])
        try other.append(line: "b")
        try open.append(line: "3")
        try other.close()
        #expect(try bed.keybag.performQueuedWork().count == 1, "the log itself is in use")
        try open.close()
        try bed.keybag.performQueuedWork()
        #expect(try bed.text(bed.path("log")) == "1\n2\n3\na\nb\n")
    }

    /// A daemon that was started while locked does not write to a segment for ever.
    @Test func aSegmentIsLeftAfterTheUnlock() throws {
        let later = Clock.Lead()
        try Clock.$lead.withValue(later) {
            let bed = try FileTestBed()
            try bed.log("1")
            try bed.keybag.lock()
            try bed.log("2")
            let open = try SegmentedLog(bed.path("log"), keybag: bed.keybag)
            try open.append(line: "3")
            try bed.enter(.unlocked)
            later.move(by: 1.1)
            try open.append(line: "4")
            #expect(try bed.names() == ["log"])
            // What others leave while it has the log open, it joins too.
            let other = try SegmentedLog(bed.path("log"), keybag: bed.keybag)
            try other.append(line: "5")
            try other.close()
            #expect(try bed.names() == ["log", "log.segment-1"])
            later.move(by: 1.1)
            try open.append(line: "6")
            #expect(try bed.names() == ["log"])
            try open.close()
            #expect(try bed.text(bed.path("log")) == "1\n2\n3\n4\n5\n6\n")
        }
    }

    /// A line is written somewhere, whatever has become of the segment.
    @Test func aSegmentThatCannotBeJoinedIsLeftToo() throws {
        let later = Clock.Lead()
        try Clock.$lead.withValue(later) {
            let bed = try FileTestBed()
            try bed.log("1")
            try bed.keybag.lock()
            let open = try SegmentedLog(bed.path("log"), keybag: bed.keybag)
            try open.append(line: "2")
            for head: UInt64 in [0, 4096] {
                try LowerFile(bed.path("log.segment-1"), flags: O_RDWR).write(
                    [UInt8](repeating: 7, count: 100), at: head + 200)
            }
            try bed.enter(.unlocked)
            later.move(by: 1.1)
            try open.append(line: "3")
            try open.close()
            #expect(try bed.text(bed.path("log")) == "1\n3\n")
        }
    }

    /// Somebody rotates between a writer's look at the log and its joins. If a segment began the new log then, the writer's
    /// next line would be in the old one, before it.
    @Test func aWriterOfTheOldLogBeginsNoNewOne() throws {
        let bed = try FileTestBed()
        try bed.log("1")
        try bed.keybag.lock()
        try bed.log("2")
        try bed.enter(.unlocked)
        let own = try ProtectedFile.open(bed.path("log").resolved(), .readWrite, keybag: bed.keybag)
        try own.beginWriting()
        try AtomicReplace.rename(bed.path("log"), to: bed.path("log.1"))
        let results = try bed.keybag.performQueuedWork(into: own, keepingLost: false)
        #expect(results.map(\.outcome.holdsUp) == [true])
        #expect(try bed.names() == ["log.1", "log.segment-1"])
        try own.close()
        try bed.log("3")
        #expect(try bed.text(bed.path("log")) == "2\n3\n")
    }

    /// A segment becomes the log also while it is written to.
    @Test func theLogIsRotatedAwayFromASegment() throws {
        let later = Clock.Lead()
        try Clock.$lead.withValue(later) {
            let bed = try FileTestBed()
            try bed.log("1")
            try bed.keybag.lock()
            let first = try SegmentedLog(bed.path("log"), keybag: bed.keybag)
            let second = try SegmentedLog(bed.path("log"), keybag: bed.keybag)
            try first.append(line: "2")
            try second.append(line: "a")
            try AtomicReplace.rename(bed.path("log"), to: bed.path("log.1"))
            try bed.enter(.unlocked)
            later.move(by: 1.1)
            try second.append(line: "b")
            try first.append(line: "3")
            #expect(try bed.names() == ["log", "log.1", "log.segment-2", "log.segment-3"], "3 does not overtake b")
            try second.close()
            try first.close()
            try bed.keybag.performQueuedWork()
            #expect(try bed.text(bed.path("log")) == "2\na\nb\n3\n")
            #expect(try bed.names() == ["log", "log.1"])
        }
    }

    @Test(arguments: [ProtectionState.unlocked, .locked]) func rotation(_ state: ProtectionState) throws {
        let bed = try FileTestBed(state: state)
        let open = try SegmentedLog(bed.path("log"), keybag: bed.keybag)
        for line in 1...5 {
            try open.append(line: "\(line)")
            try open.rotate(keeping: 3)
        }
        try open.append(line: "6")
        // Somebody else rotates: the next line goes to the new log.
        try AtomicReplace.rename(bed.path("log"), to: bed.path("log.old"))
        try open.append(line: "7")
        try open.close()
        try bed.enter(.unlocked)
        #expect(try bed.names() == ["log", "log.1", "log.2", "log.3", "log.old"])
        for (name, line) in [("log.3", "3"), ("log.2", "4"), ("log.1", "5"), ("log.old", "6"), ("log", "7")] {
            #expect(try bed.text(bed.path(name)) == "\(line)\n")
        }
    }

    /// A missing log is replaced by its first segment, never over another file.
    @Test func theLogIsGone() throws {
        let bed = try FileTestBed()
        try bed.log("1")
        try bed.keybag.lock()
        try bed.log("2")
        try AtomicReplace.rename(bed.path("log"), to: bed.path("log.1"))
        try bed.log("3")
        #expect(try bed.names() == ["log.1", "log.segment-1", "log.segment-2"])
        try bed.enter(.unlocked)
        try bed.keybag.performQueuedWork()
        #expect(try bed.text(bed.path("log")) == "2\n3\n")
        #expect(try bed.text(bed.path("log.1")) == "1\n")
        #expect(try bed.names() == ["log", "log.1"])
    }

    @Test func whatIsNoLogIsLeftAlone() throws {
        let bed = try FileTestBed()
        try bed.make("log", .complete, [1])
        for state in [ProtectionState.unlocked, .locked] {
            try bed.enter(state)
            expectError("wouldWeaken") { _ = try SegmentedLog(bed.path("log"), keybag: bed.keybag) }
        }
        try bed.enter(.unlocked)
        try bed.path("log").remove()
        try bed.log("1")
        try bed.keybag.lock()
        try bed.log("2")
        try bed.path("log").remove()
        try bed.makePlain("log", Array("plain".utf8))
        try bed.enter(.unlocked)
        let outcomes = try bed.keybag.performQueuedWork().map(\.outcome)
        #expect(outcomes == [.failed(.notProtected(try bed.path("log").resolved()))])
        #expect(try bed.path("log").contents() == Array("plain".utf8))
        #expect(try bed.text(bed.path("log.segment-1")) == "2\n", "nothing is lost")
    }

    @Test func aDamagedSegmentHoldsNobodyUp() throws {
        let bed = try FileTestBed()
        try bed.log("1")
        try bed.keybag.lock()
        for line in ["2", "3"] { try bed.log(line) }
        let segment = bed.path("log.segment-1")
        for head: UInt64 in [0, 4096] {
            try LowerFile(segment, flags: O_RDWR).write([UInt8](repeating: 7, count: 100), at: head + 200)
        }
        try bed.enter(.unlocked)
        try bed.log("4")
        #expect(try bed.text(bed.path("log")) == "1\n3\n4\n")
        #expect(try bed.keybag.queuedWork().map(\.path) == [try segment.resolved()])
    }
}

extension FileTestBed {
    /// The lines of a log.
    func text(_ path: FilePath) throws -> String { String(decoding: try read(path), as: UTF8.self) }

    /// Opens the log, appends lines and closes it.
    func log(_ lines: String..., to name: String = "log") throws {
        let log = try SegmentedLog(path(name), keybag: keybag)
        for line in lines { try log.append(line: line) }
        try log.close()
    }
}

extension ProtectionState: CaseIterable {
    public static let allCases: [ProtectionState] = [.beforeFirstUnlock, .unlocked, .locked]
}
