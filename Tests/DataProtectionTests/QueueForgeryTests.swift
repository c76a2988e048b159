import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection
@testable import ProtectedTrees

/// Notes that somebody wrote into the queue while the keybag was locked.
@Suite struct QueueForgeryTests {
    /// A secret is not appended to a file that everybody can read, and not removed.
    @Test(arguments: ["secret", "public.segment-1"], [ProtectionClass.complete, .completeUnlessOpen])
    func aJoinThatWouldWeaken(_ name: String, _ protectionClass: ProtectionClass) throws {
        let bed = try FileTestBed()
        let secret = try bed.makeWhole(name, protectionClass, Array("secret".utf8))
        let target = try bed.makeWhole("public", .none, Array("public".utf8))
        try bed.forgeJoin(secret, to: target)
        let outcomes = try bed.keybag.performQueuedWork().map(\.outcome)
        if name == "secret" {
            #expect(outcomes == [], "no segment has this name")
            #expect(bed.bag.warnings.unusual.map(\.caseName).contains("queueNoteUnreadable"))
        } else {
            #expect(outcomes == [.failed(.because(FileFailure.wouldWeaken(secret, from: protectionClass, to: .none)))])
        }
        #expect(try bed.read(target) == Array("public".utf8))
        #expect(try bed.read(secret) == Array("secret".utf8))
    }

    /// Anybody who knows the public key can make an unless-open file, and then knows its key.
    @Test func aJoinIntoAPlantedLog() throws {
        let bed = try FileTestBed()
        let segment = try bed.makeWhole("log.segment-1", .completeUnlessOpen, Array("secret".utf8))
        let log = try bed.makePlanted("log")
        try bed.forgeJoin(segment, to: log)
        #expect(
            try bed.keybag.performQueuedWork().map(\.outcome) == [
                .failed(.because(FileFailure.unverifiedOrigin(log, .unverified)))
            ])
        #expect(try bed.read(log) == [])
        #expect(try bed.read(segment) == Array("secret".utf8))
    }

    @Test("A raise is not done because a forged head claims the class: the note stays until the genuine head is back")
    func aClassThatIsOnlyClaimed() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .completeUntilFirstUserAuthentication, [1, 2, 3])
        let genuine = try path.contents()
        try bed.forge([.raise(try bed.reference(path), from: .completeUntilFirstUserAuthentication, to: .complete)])
        try bed.forgeClass(of: path, .complete)
        let forged = try path.contents()
        expectError("otherKey") {
            _ = try QueuedRaise(LowerFile(path, flags: O_RDONLY), named: path, to: .complete, keybag: bed.keybag)
        }
        let outcomes = try bed.keybag.performQueuedWork().map(\.outcome)
        guard outcomes.count == 1, case .failed(.because(FileFailure.otherKey)) = outcomes[0] else {
            Issue.record("\(outcomes)")
            return
        }
        #expect(try path.contents() == forged)
        try path.overwrite(genuine)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try ProtectedFileInfo(of: path).protectionClass == .complete)
    }

    /// A note is looked at before its turn comes, and may be another one then.
    @Test func aNoteThatIsExchanged() throws {
        let bed = try FileTestBed()
        let first = try bed.makeWhole("first", .completeUnlessOpen, Array("first".utf8))
        let secret = try bed.makeWhole("log.segment-1", .complete, Array("secret".utf8))
        let log = try bed.makeWhole("log", .complete, Array("line".utf8))
        try bed.forge([.raise(try bed.reference(first), from: .completeUnlessOpen, to: .complete)])
        try bed.forgeJoin(secret, to: log)
        let numbers = try QueueNote.numbers(in: bed.keybag.directory)
        let paths = numbers.map { bed.keybag.directory.appending("queue").appending("\($0)") }
        let results = try bed.keybag.performQueuedWork(
            only: { work in
                if work.path == first { try? paths[0].overwrite(try paths[1].contents()) }
                return work.path == first
            }, keepingLost: false)
        #expect(results.isEmpty)
        #expect(try bed.read(log) == Array("line".utf8))
        #expect(try bed.read(secret) == Array("secret".utf8))
    }

    /// What a note says was appended already is looked for.
    @Test(
        arguments: [
            [(0, 7, 0)], [(.max, 0, .max)], [(2, .max, 0)], [(0, 0, 4)], [(2, 4, 0)], [(0, 0, 2), (0, 2, 2)],
            [(0, 0, .max)], [(0, .max, .max)], [(2, 0, .max)],
        ] as [[(offset: UInt64, from: UInt64, count: UInt64)]])
    func aJoinThatWasNeverBegun(_ claims: [(offset: UInt64, from: UInt64, count: UInt64)]) throws {
        let bed = try FileTestBed()
        try bed.log("1")
        try bed.keybag.lock()
        try bed.log("2")
        let note = bed.keybag.directory.appending("queue/1")
        let log = try bed.reference(bed.path("log"))
        let forged = claims.map {
            QueueRecord.begun(log, offset: $0.offset, from: $0.from, count: $0.count, seal: Array(1..<29))
        }
        try note.overwrite(try note.contents() + forged.flatMap(\.encoded))
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try bed.text(bed.path("log")) == "1\n2\n")
        #expect(try bed.names() == ["log"])
    }

    /// Else what came of each comparison would say what is in a log that is shut.
    @Test(
        "Nothing of a segment is compared with a log whose own key does not prove that it was begun",
        arguments: [[], Array(1..<29)])
    func aBeginningThatIsRight(_ seal: [UInt8]) throws {
        let bed = try FileTestBed()
        let log = try bed.makeWhole("log", .complete, Array("line".utf8))
        let segment = try bed.makeWhole("log.segment-1", .none, Array("line".utf8))
        try bed.forge([
            .join(try bed.reference(segment), log: log, seal: try bed.joinSeal(of: segment, for: log)),
            .begun(try bed.reference(log), offset: 0, from: 0, count: 4, seal: seal),
        ])
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try bed.read(log) == Array("lineline".utf8))
    }

    /// A seal of one place, segment and text proves no other one, and none is made of bytes that do not open.
    @Test func aBeginningThatIsPutBack() throws {
        let bed = try FileTestBed()
        let path = try bed.makeWhole("log", .complete, Array("line".utf8))
        let log = try ProtectedFile.open(path, keybag: bed.keybag)
        func claim(_ offset: UInt64 = 0, _ from: UInt64 = 0, _ count: UInt64 = 4, id: UInt8 = 1, digest: UInt8 = 2)
            -> FileClaim
        {
            .begun(
                segment: Array(repeating: id, count: 16), offset: offset, from: from, count: count,
                digest: Array(repeating: digest, count: 32))
        }
        let seal = try log.seal(claim())
        #expect(try log.proves(claim(), by: seal))
        for other in [
            claim(1), claim(0, 1), claim(0, 0, 5), claim(id: 2), claim(digest: 3), .part(0, of: [1], as: .none),
        ] {
            #expect(try !log.proves(other, by: seal))
        }
        let another = try ProtectedFile.open(
            bed.makeWhole("another", .complete, Array("line".utf8)), keybag: bed.keybag)
        #expect(try !another.proves(claim(), by: seal))

        let segment = try bed.make("log.segment-1", .none, Array(repeating: 7, count: 9000))
        try bed.forgeJoin(segment, to: path)
        var bytes = try segment.contents()
        bytes[bytes.count - 1] ^= 1
        try segment.overwrite(bytes)
        let note = try #require(try QueueNote.numbers(in: bed.keybag.directory).first)
        _ = try bed.keybag.performQueuedWork()
        let read = try #require(try QueueNote(note, in: bed.keybag.directory, holding: false))
        #expect(read.records.count == 2, "the join, and that it failed")
        #expect(try log.size() == 4)
    }

    /// Nor does a note lead to a file that is no part of the log.
    @Test func aJoinThatWasBegunElsewhere() throws {
        let bed = try FileTestBed()
        let other = try bed.makeWhole("other", .none, Array("other".utf8))
        try bed.log("1")
        try bed.keybag.lock()
        try bed.log("2")
        let note = bed.keybag.directory.appending("queue/1")
        let forged = QueueRecord.begun(
            try bed.reference(other), offset: 5, from: 0, count: 2, seal: Array(1..<29))
        try note.overwrite(try note.contents() + forged.encoded)
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try bed.text(bed.path("log")) == "1\n2\n")
        #expect(try bed.read(other) == Array("other".utf8))
    }

    /// What has the name of a note and is none.
    enum NotANote: String, CaseIterable {
        case highestNumber, lastNumber, directory, link, fifo, tebibyte

        var name: String {
            switch self {
            case .highestNumber: "\(UInt64.max)"
            case .lastNumber: "\(FreeNumber.end - 1)"
            default: "1"
            }
        }

        func make(_ path: FilePath) throws {
            switch self {
            case .highestNumber, .lastNumber: try path.overwrite([])
            case .directory: try OwnDirectory.make(path)
            case .link: try path.makeSymbolicLink(to: "nowhere")
            case .fifo: try path.makeFIFO()
            case .tebibyte: try LowerFile(path, flags: O_RDWR | O_CREAT).truncate(to: 1 << 40)
            }
        }
    }

    /// It is reported; other work is done, and new work finds a number.
    @Test(arguments: NotANote.allCases) func aNoteThatIsNone(_ kind: NotANote) throws {
        let bed = try FileTestBed()
        try bed.keybag.lock()
        let queue = bed.keybag.directory.appending("queue")
        try OwnDirectory.make(queue)
        try kind.make(queue.appending(kind.name))
        try ProtectedFile.create(
            bed.path("a"), as: .completeUnlessOpen, raiseTo: .complete, keybag: bed.keybag
        ).close()
        #expect(try bed.keybag.queuedWork().map(\.path.lastComponent?.string) == ["a"])
        #expect(bed.bag.warnings.unusual.map(\.caseName).contains("queueNoteUnreadable"))
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try ProtectedFileInfo(of: bed.path("a")).protectionClass == .complete)
        #expect(try queue.names() == [kind.name])
    }

    /// Counting on from the highest number would end in an overflow.
    @Test func aNumberThatIsFree() {
        let end = FreeNumber.end
        for (taken, free): ([UInt64], UInt64) in [
            ([], 1), ([2, 5], 6), ([.max], 1), ([.max, 3, .max - 1], 4), ([end - 1, 7], 8), ([end - 2], end - 1),
        ] {
            #expect(FreeNumber.after(taken) == free)
        }
    }

    /// A note at which its worker dies does not keep what is behind it from being done for ever.
    @Test func aNoteThatKillsItsWorker() throws {
        let bed = try FileTestBed()
        try bed.keybag.lock()
        for name in ["first", "second"] {
            try ProtectedFile.create(
                bed.path(name), as: .completeUnlessOpen, raiseTo: .complete, keybag: bed.keybag
            ).close()
        }
        try bed.enter(.unlocked)
        for _ in 0..<5 { try QueueTries(1, in: bed.keybag.directory).begin() }
        let tries = bed.keybag.directory.appending("queue/1.tries")
        #expect(
            try bed.keybag.performQueuedWork().map(\.outcome) == [
                .failed(.because(TreeFailure.setAside(tries))), .done,
            ])
        #expect(try ProtectedFileInfo(of: bed.path("second")).protectionClass == .complete)
        try tries.remove()
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try ProtectedFileInfo(of: bed.path("first")).protectionClass == .complete)
        #expect(try bed.keybag.directory.appending("queue").names() == [])

        // The tries of a note that has gone do not count for the next note with its number.
        for _ in 0..<5 { try QueueTries(1, in: bed.keybag.directory).begin() }
        #expect(try bed.keybag.directory.appending("queue").names() == ["1.tries"])
        try bed.keybag.lock()
        try ProtectedFile.create(
            bed.path("third"), as: .completeUnlessOpen, raiseTo: .complete, keybag: bed.keybag
        ).close()
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
    }

    /// A join that fails repeatedly notes its beginning and its failure only once.
    @Test func aJoinThatFailsAgain() throws {
        let bed = try FileTestBed()
        let log = try bed.makeWhole("log", .complete, Array(repeating: 1, count: 200_000))
        try bed.forgeJoin(try bed.makeWhole("log.segment-1", .complete, [2, 3]), to: log)
        let number = try #require(try QueueNote.numbers(in: bed.keybag.directory).first)
        try withFiles(ofAtMost: 100_000) {
            for _ in 0..<4 {
                let outcomes = try bed.keybag.performQueuedWork().map(\.outcome)
                guard outcomes.count == 1, case .failed(.system(_, _, .fileTooLarge)) = outcomes[0] else {
                    Issue.record("\(outcomes)")
                    return
                }
                let note = try #require(try QueueNote(number, in: bed.keybag.directory, holding: false))
                #expect(note.begun != nil && note.records.count == 3)
            }
        }
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try bed.read(log) == Array(repeating: 1, count: 200_000) + [2, 3])
    }
}

extension FileTestBed {
    /// The file of that name, as a note names it.
    func reference(_ path: FilePath) throws -> FileReference {
        let file = try LowerFile(path, flags: O_RDONLY)
        return try FileReference(file, try #require(try file.fileID()), named: path)
    }

    /// Writes a note as its forger would, with whatever records.
    func forge(_ records: [QueueRecord]) throws {
        var note = try QueueNote(records[0], in: keybag.directory)
        for record in records.dropFirst() { try note.add(record) }
    }

    /// Queues a file as a segment, with a seal as only its maker can make it.
    func forgeJoin(_ segment: FilePath, to log: FilePath) throws {
        try forge([.join(try reference(segment), log: log, seal: try joinSeal(of: segment, for: log))])
    }
}
