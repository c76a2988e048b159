import ProtectionFormat
import ProtectionKeys
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection
@testable import ProtectedTrees

/// What a note of the queue says. FORMAT.md §2.8.
@Suite struct QueueNoteTests {
    static let records: [QueueRecord] = {
        let id = try! FileID(bytes: 0..<16)
        let file = FileReference(device: 2064, inode: 12, path: FilePath(bytes: Array("/a\n \u{FF}b".utf8)), fileID: id)
        return [
            .raise(file, from: .completeUnlessOpen, to: .complete), .join(file, log: "/log\nfile", seal: Array(7..<35)),
            .join(file, log: "/log\nfile", seal: []),
            .begun(file, offset: 5, from: 0, count: .max, seal: Array(1..<29)),
            .begun(file, offset: 5, from: 0, count: .max, seal: []), .failed(.ioError, at: 1_700_000_000),
        ]
    }()

    @Test func whatIsWrittenIsRead() throws {
        let all = Self.records.flatMap(\.encoded)
        #expect(QueueRecord.decode(all) == Self.records)
        for count in 0..<all.count {
            let read = QueueRecord.decode(Array(all.prefix(count)))
            #expect(read == Array(Self.records.prefix(read.count)), "torn after \(count) bytes")
            #expect(read.flatMap(\.encoded).count <= count)
        }
    }

    /// What is noted must be found again by what it was noted from, or it is noted twice and never forgotten.
    @Test func rulesThatSayNothingAreNone() throws {
        let plan = UpgradePlan(
            protectionClass: .complete, rules: try UpgradeRules("# nothing\n"), includes: [])
        let work = QueueRecord.upgrade(QueuedUpgrade(device: 1, inode: 2, path: "/d", plan: plan.withoutSource))
        #expect(QueueRecord.decode(work.encoded) == [work])
        #expect(QueueRecord.decode(Array("upgrade\u{0}1\u{0}2\u{0}/d\u{0}1\u{0}0\u{0}# nothing\u{0}\n".utf8)) == [work])
    }

    /// A crafted note takes no more memory than that.
    @Test func longRulesAreNone() throws {
        for (count, isRead) in [(1 << 18, true), ((1 << 18) + 1, false)] {
            let rules = String(repeating: "? -\n", count: count)
            let note = Array("upgrade\u{0}1\u{0}2\u{0}/d\u{0}1\u{0}0\u{0}\(rules)\u{0}\n".utf8)
            #expect(QueueRecord.decode(note).isEmpty == !isRead, "\(count) rules")
        }
    }

    /// A kind that a later version includes is not left out in silence by this one.
    @Test func whatIsIncludedIsASum() throws {
        for (sum, includes) in [("0", []), ("1", [.databases]), ("15", Set(LeftOut.allCases))]
            as [(String, Set<LeftOut>)]
        {
            let plan = UpgradePlan(protectionClass: .complete, rules: nil, includes: includes)
            let work = QueueRecord.upgrade(QueuedUpgrade(device: 1, inode: 2, path: "/d", plan: plan))
            #expect(work.encoded == Array("upgrade\u{0}1\u{0}2\u{0}/d\u{0}1\u{0}\(sum)\u{0}\u{0}\n".utf8))
            #expect(QueueRecord.decode(work.encoded) == [work])
        }
        for sum in ["16", "01", "+1", "", "256"] {
            let bytes = Array("upgrade\u{0}1\u{0}2\u{0}/d\u{0}1\u{0}\(sum)\u{0}\u{0}\n".utf8)
            #expect(QueueRecord.decode(bytes) == [], "\(sum)")
        }
    }

    /// A record that is written anew must take as many bytes as it was read from.
    @Test(arguments: ["", "0", "upper", "colons", "short", "long", "two"]) func aSealHasOneForm(_ form: String) throws {
        let good = Self.records[1].encoded
        let seal = Array(good.dropLast(2).suffix(56))
        #expect(QueueRecord.decode(good) == [Self.records[1]])
        let other: [UInt8] =
            switch form {
            case "upper": Array(String(decoding: seal, as: UTF8.self).uppercased().utf8)
            case "colons": Array(stride(from: 0, to: 56, by: 2).map { seal[$0..<$0 + 2] }.joined(separator: [0x3A]))
            case "short": seal.dropLast(2)
            case "long": seal + seal
            case "two": seal + [0] + seal
            default: Array(form.utf8)
            }
        #expect(QueueRecord.decode(Array(good.dropLast(58)) + other + [0, 0x0A]) == [])
    }

    @Test func anythingElseIsNoNote() throws {
        var generator = Effort.generator("queue records")
        let all = Self.records.flatMap(\.encoded)
        for _ in 0..<20_000 {
            var bytes = all
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                bytes[Int.random(in: 0..<bytes.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
            }
            _ = QueueRecord.decode(bytes)
        }
        let bed = try FileTestBed()
        try OwnDirectory.make(bed.keybag.directory.appending("queue"))
        for (number, bytes) in [[], [0], [0, 10], Array("raise".utf8), Array("raise\0\0\0\0\0\0\n".utf8)].enumerated() {
            try bed.keybag.directory.appending("queue/\(number + 1)").overwrite(bytes)
        }
        try bed.keybag.directory.appending("queue/other").overwrite([])
        #expect(try bed.keybag.queuedWork() == [])
        #expect(try bed.keybag.performQueuedWork() == [])
        #expect(bed.bag.warnings.unusual.map(\.caseName) == Array(repeating: "queueNoteUnreadable", count: 10))
    }
}
