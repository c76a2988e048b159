import Foundation
import ProtectionFormat
import StormScript
import Synchronization
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// What verifying finds, by name and place. Rows of FORMAT.md §5: the Tamper suites, which verify whatever they alter.
@Suite struct FileVerificationTests {
    private let bed: FileTestBed
    init() throws { bed = try FileTestBed() }

    private func verify(_ path: FilePath) throws -> FileVerification { try #require(try bed.keybag.verify(path)) }

    private func alter(_ path: FilePath, _ places: [Int]) throws {
        var bytes = try path.contents()
        for place in places { bytes[place] ^= 1 }
        try path.overwrite(bytes)
    }

    @Test(arguments: ProtectionClass.allCases, [0, 1, 3584, 3585, 4096, 300_000])
    func wholeFiles(_ protectionClass: ProtectionClass, size: Int) throws {
        let bytes = pattern(1, count: size)
        for path in [
            try bed.makeWhole("whole", protectionClass, bytes), try bed.make("handle", protectionClass, bytes),
        ] {
            let result = try verify(path)
            #expect(result.verdict == .whole && result.findings == [], "\(result)")
            #expect(result.protectionClass == protectionClass && result.size == Int64(size))
            #expect(result.origin == .verified && !result.isBeingWritten)
        }
    }

    @Test func everyDamagedChunkIsNamed() throws {
        let size = (3 << 20) + 10
        let path = try bed.make("f", .complete, pattern(1, count: size))
        let last = UInt64(768)
        let places = [3, 4, 5, 300, last].map { Int(ChunkLayout.small.home($0)) + 3 }
        try alter(path, places)
        let result = try verify(path)
        let expected: [FileVerification.Finding] = [
            .chunksDamaged(12_288..<24_576), .chunksDamaged(1_228_800..<1_232_896),
            .chunksDamaged(3_145_728..<Int64(size)),
        ]
        #expect(result.findings == expected)
        #expect(result.verdict == .damaged)
    }

    @Test func headsLengthsAndForeignBytes() throws {
        let path = try bed.make("f", .complete, pattern(1, count: 10_000))
        let stored = try path.contents()
        for head in [0, 1] {
            try path.overwrite(stored)
            try alter(path, [head * 4096 + 100])
            #expect(try verify(path).findings == [.headDamaged(index: head)])
        }
        try path.overwrite(stored + [1, 2, 3])
        #expect(try verify(path).findings == [.appended(byteCount: 3)])
        #expect(try verify(path).verdict == .doubtful)
        try path.overwrite(Array(stored.dropLast(7)))
        #expect(try verify(path).findings == [.chunksDamaged(8192..<10_000), .missing(byteCount: 7)])
        try path.overwrite(stored)
        try alter(path, [100, 4196])
        guard case .refused(.head, _)? = try verify(path).findings.first else {
            Issue.record("both heads are bad")
            return
        }
        #expect(try verify(path).protectionClass == nil)
        try path.overwrite(stored)
        #expect(try verify(path).verdict == .whole)
    }

    /// A file of 2^43 bytes that are all hole is verified at once.
    @Test(.timeLimit(.minutes(20))) func holesAreNotRead() throws {
        let path = try bed.make("f", .complete, [1])
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.truncate(to: 1 << 43)
        try file.close()
        #expect(try verify(path).verdict == .whole)
        #expect(try verify(path).size == 1 << 43)
    }

    @Test func anInterruptedClassChangeIsNamed() throws {
        let path = try bed.make("f", .completeUntilFirstUserAuthentication, [1, 2, 3])
        let file = try LowerFile(path, flags: O_RDWR)
        let old = try file.bytes(at: 0, count: Head.length)
        try bed.keybag.setProtection(.complete, ofItemAt: path)
        try file.write(old, at: UInt64(HeadPair(of: file).target * Head.length))
        let result = try verify(path)
        #expect(result.verdict == .unclosed)
        guard case .oldClassLeft? = result.findings.first else {
            Issue.record("\(result.findings)")
            return
        }
        // Also while somebody writes: no writer leaves that.
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try writer.write([9], at: 0)
        #expect(try verify(path).verdict == .unclosed)
        try writer.close()
        #expect(try verify(path).verdict == .whole)
    }

    @Test func refusals() throws {
        expectError("notProtected") { _ = try verify(try bed.makePlain("plain", [1])) }
        expectError("notProtected") { _ = try verify(try bed.makePlain("empty", [])) }
        expectError("notRegularFile") { _ = try verify(bed.directory) }
        let other = try FileTestBed()
        let foreign = try other.make("f", .none)
        expectError("foreignKeybag") { _ = try verify(foreign) }
        let path = try bed.make("a", .complete, [1])
        try bed.enter(.locked)
        expectError("locked") { _ = try verify(path) }
    }

    @Test func stopsWhenTold() throws {
        let path = try bed.make("f", .complete, pattern(1, count: 5 << 20))
        var calls = 0
        let result = try bed.keybag.verify(path) { _ in
            calls += 1
            return calls < 3
        }
        #expect(result == nil && calls == 3)
    }

    @Test func changesNothing() throws {
        let path = try bed.make("f", .complete, pattern(1, count: 10_000))
        try path.overwrite(try path.contents() + [1, 2, 3])
        try alter(path, [200])
        let before = try path.contents()
        _ = try verify(path)
        #expect(try path.contents() == before, "nothing is repaired")
    }

    /// Beside a writer that commits, grows, shrinks and changes class, nothing is ever called damaged.
    @Test(arguments: [ProtectionClass.complete, .completeUnlessOpen])
    func besideAWriter(_ protectionClass: ProtectionClass) throws {
        let path = try bed.make("f", protectionClass, pattern(1, count: 60_000))
        let keybag = bed.keybag
        let isOver = Atomic(false)
        let rounds = Atomic(0)
        let problem = Mutex<String?>(nil)
        let group = DispatchGroup()
        group.enter()
        Thread.detachNewThread {
            defer { group.leave() }
            while !isOver.load(ordering: .sequentiallyConsistent) {
                do {
                    let result = try keybag.verify(path)
                    rounds.add(1, ordering: .relaxed)
                    guard let result, result.verdict == .whole || result.verdict == .beingWritten else {
                        problem.withLock { $0 = "\(String(describing: result))" }
                        return
                    }
                } catch {
                    problem.withLock { $0 = "\(error)" }
                    return
                }
            }
        }
        var generator = Effort.generator("FileVerificationTests, \(protectionClass)", 6)
        for round in 0..<30 {
            let writer = try ProtectedFile.open(path, .readWrite, keybag: keybag)
            for number in 0..<10 {
                let place = UInt64.random(in: 0..<80_000, using: &generator)
                try writer.write(pattern(UInt64(number), count: 3000), at: place)
                if number == 5 { try writer.truncate(to: Int64.random(in: 1000..<90_000, using: &generator)) }
                try writer.sync()
            }
            if round % 5 == 0 {
                try keybag.setProtection(round % 10 == 0 ? .none : protectionClass, ofItemAt: path)
            }
            try writer.close()
        }
        while rounds.load(ordering: .relaxed) < 20, problem.withLock({ $0 == nil }) { usleep(1000) }
        isOver.store(true, ordering: .sequentiallyConsistent)
        group.wait()
        #expect(problem.withLock { $0 } == nil)
        #expect(try verify(path).verdict == .whole)
    }

    /// Asking whether somebody writes keeps nobody from writing.
    @Test func doesNotTakeTheWritersPlace() throws {
        let path = try bed.make("f", .complete, pattern(1, count: 10_000))
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try writer.write([1], at: 0)
        try writer.sync()
        let result = try verify(path)
        #expect(result.verdict == .beingWritten && result.isBeingWritten, "\(result)")
        try writer.write([2], at: 0)
        try writer.close()
        #expect(try verify(path).verdict == .whole)
    }
}
