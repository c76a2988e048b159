import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

/// Files with the names of segments, and notes about them, that somebody made while the keybag was locked. FORMAT.md §2.8.
@Suite struct SegmentForgeryTests {
    /// Whoever knows the public key can also make a segment, and seal a note for it.
    @Test(arguments: [false, true])
    func aPlantedSegment(thereIsALog: Bool) throws {
        let bed = try FileTestBed()
        let log = bed.path("log")
        if thereIsALog { try bed.log("line") }
        let segment = try bed.makePlanted("log.segment-1", .unverified, Array("planted\n".utf8))
        let stored = try segment.contents()
        try bed.forgeJoin(segment, to: log)
        try bed.keybag.lock()
        if !thereIsALog {
            // While locked nothing tells a planted segment from the log's beginning.
            try bed.log("first")
        }
        try bed.log("next")
        try bed.enter(.unlocked)
        let segments = thereIsALog ? 1 : 2
        let outcomes = try bed.keybag.performQueuedWork().map(\.outcome)
        #expect(
            outcomes == [.failed(.because(TreeFailure.notASegment(segment, of: log)))]
                + Array(repeating: .done, count: segments))
        #expect(try bed.text(log) == (thereIsALog ? "line\nnext\n" : "first\nnext\n"), "it holds nobody up")
        #expect(try segment.contents() == stored)
        #expect(try bed.names() == ["log", "log.segment-1"])

        // It is said again until somebody has looked at it and removed it.
        let work = try #require(try bed.keybag.queuedWork().first)
        #expect(work.path == segment && work.lastError == .badMessage)
        #expect(
            try bed.keybag.performQueuedWork().map(\.outcome) == [
                .failed(.because(TreeFailure.notASegment(segment, of: log)))
            ])
        try segment.remove()
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.gone])
        #expect(bed.keybag.queuedWorkCount == 0)
    }

    /// A log that goes on without a segment says so, once.
    @Test func aPlantedSegmentIsLeftOutWithAWarning() throws {
        let later = Clock.Lead()
        try Clock.$lead.withValue(later) {
            let bed = try FileTestBed()
            try bed.log("1")
            let segment = try bed.makePlanted("log.segment-1", .unverified, Array("planted\n".utf8))
            try bed.forgeJoin(segment, to: bed.path("log"))
            let log = try SegmentedLog(bed.path("log"), keybag: bed.keybag)
            for line in ["2", "3"] {
                try log.append(line: line)
                later.move(by: 1.1)
            }
            try log.close()
            #expect(try bed.text(bed.path("log")) == "1\n2\n3\n")
            #expect(try bed.names() == ["log", "log.segment-1"])
            let error = DataProtectionError.because(TreeFailure.notASegment(segment, of: bed.path("log")))
            #expect(bed.bag.warnings.unusual == [.segmentLeftOut(segment, of: bed.path("log"), error)])
        }
    }

    /// A file of the user's that is given a segment's name: it would be in the log, and nowhere else.
    @Test(
        arguments: ProtectionClass.allCases.filter { $0 != .none }, ["none", "garbled", "other log", "other segment"])
    func aGenuineFileThatIsNoSegment(_ protectionClass: ProtectionClass, _ seal: String) throws {
        let bed = try FileTestBed()
        let log = try bed.makeWhole("log", .complete, Array("line".utf8))
        let file = try bed.makeWhole("log.segment-1", protectionClass, Array("diary".utf8))
        var bytes: [UInt8]
        switch seal {
        case "none": bytes = []
        case "garbled":
            bytes = try bed.joinSeal(of: file, for: log)
            bytes[20] ^= 1
        case "other log": bytes = try bed.joinSeal(of: file, for: bed.path("log."))
        default:
            bytes = try bed.joinSeal(of: bed.makeWhole("log.segment-2", protectionClass, [1]), for: log)
        }
        try bed.keybag.lock()
        try bed.forge([.join(try bed.reference(file), log: log, seal: bytes)])
        try bed.enter(.unlocked)
        let outcomes = try bed.keybag.performQueuedWork().map(\.outcome)
        #expect(outcomes == [.failed(.because(TreeFailure.notASegment(file, of: log)))])
        #expect(try bed.read(log) == Array("line".utf8))
        #expect(try bed.read(file) == Array("diary".utf8))
    }

    /// A second name of the log looks like a segment that has become it, of which only that name is left to be removed.
    @Test(arguments: [false, true])
    func aSecondNameOfTheLog(isSealed: Bool) throws {
        let bed = try FileTestBed()
        let log = try bed.makeWhole("log", .complete, Array("line".utf8))
        let name = bed.path("log.segment-1")
        var seal: [UInt8] = isSealed ? try bed.joinSeal(of: log, for: log) : []
        if isSealed { seal[20] ^= 1 }
        try bed.keybag.lock()
        try #require(link(log.string, name.string) == 0)
        try bed.forge([.join(try bed.reference(name), log: log, seal: seal)])
        try bed.enter(.unlocked)
        let outcomes = try bed.keybag.performQueuedWork().map(\.outcome)
        #expect(outcomes == [.failed(.because(TreeFailure.notASegment(name, of: log)))])
        #expect(try bed.names() == ["log", "log.segment-1"])
    }

    /// The segments of one log, renamed and with notes to match, are not those of another one.
    @Test func aSegmentOfAnotherLog() throws {
        let bed = try FileTestBed()
        try bed.log("public", to: "public")
        try bed.log("1")
        try bed.keybag.lock()
        try bed.log("secret")
        let segment = bed.path("public.segment-1")
        try AtomicReplace.rename(bed.path("log.segment-1"), to: segment)
        let note = bed.keybag.directory.appending("queue/1")
        guard case .join(_, _, let seal)? = QueueRecord.decode(try note.contents()).first else {
            Issue.record("no note of a join")
            return
        }
        let log = bed.path("public")
        try note.overwrite(QueueRecord.join(try bed.reference(segment), log: log, seal: seal).encoded)
        try bed.enter(.unlocked)
        let outcomes = try bed.keybag.performQueuedWork().map(\.outcome)
        #expect(outcomes == [.failed(.because(TreeFailure.notASegment(segment, of: log)))])
        #expect(try bed.text(log) == "public\n")
        #expect(try bed.text(segment) == "secret\n")
    }

    /// Before the first unlock nothing but the device key can prove who made a segment. That is enough.
    @Test func aSegmentOfThisDevice() throws {
        let bed = try FileTestBed()
        try bed.log("1")
        try bed.enter(.beforeFirstUnlock)
        try bed.log("2")
        try bed.enter(.unlocked)
        let origin = try ProtectedFile.open(bed.path("log.segment-1"), keybag: bed.keybag).origin()
        #expect(origin == .thisDevice)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try bed.text(bed.path("log")) == "1\n2\n")
    }

    /// Its bytes are where the note says, but the file was exchanged for one that nobody can answer for.
    @Test func aSegmentThatIsExchangedWithItsFileID() throws {
        let bed = try FileTestBed()
        try bed.log("1")
        try bed.keybag.lock()
        try bed.log("2")
        let segment = bed.path("log.segment-1")
        let id = try #require(try LowerFile(segment, flags: O_RDONLY).fileID())
        let planted = try bed.makePlanted("planted", .unverified, Array("planted\n".utf8), id)
        try AtomicReplace.rename(planted, to: segment)
        try bed.enter(.unlocked)
        let outcomes = try bed.keybag.performQueuedWork().map(\.outcome)
        #expect(outcomes == [.failed(.because(TreeFailure.notASegment(segment, of: bed.path("log"))))])
        #expect(try bed.text(bed.path("log")) == "1\n")
        #expect(OwnDirectory.exists(segment))
    }
}
