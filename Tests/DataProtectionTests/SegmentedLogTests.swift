import Foundation
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// A log that goes on in segments while it is locked or in use, and is one again afterwards.
@Suite struct SegmentedLogTests {
    private func text(_ path: FilePath, _ bed: FileTestBed) throws -> String {
        String(decoding: try bed.read(path), as: UTF8.self)
    }

    private func log(_ bed: FileTestBed, _ lines: String...) throws {
        let log = try SegmentedLog(bed.path("log"), keybag: bed.keybag)
        for line in lines { try log.append(line: line) }
        try log.close()
    }

    @Test func segmentsWhileLockedAreJoinedInOrder() throws {
        let bed = try FileTestBed()
        try log(bed, "1")
        try bed.keybag.lock()
        for line in ["2", "3", "4"] { try log(bed, line) }
        #expect(try bed.names() == ["log", "log.segment-1", "log.segment-2", "log.segment-3"])
        #expect(bed.keybag.queuedWorkCount == 3)
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done, .done, .done])
        #expect(try text(bed.path("log"), bed) == "1\n2\n3\n4\n")
        #expect(try bed.names() == ["log"])
        #expect(bed.keybag.queuedWorkCount == 0)
        #expect(try ProtectedFileInfo(of: bed.path("log")).protectionClass == .completeUnlessOpen)
        try StoredFile(bed.path("log")).expectClosed()
        #expect(bed.bag.warnings.unusual == [])
    }

    @Test(arguments: [ProtectionState.locked, .beforeFirstUnlock]) func begunWhileLocked(_ state: ProtectionState)
        throws
    {
        let bed = try FileTestBed(state: state)
        try log(bed, "1")
        try log(bed, "2")
        #expect(try bed.names() == ["log", "log.segment-1"])
        try bed.bag.unlock()
        try log(bed, "3")  // whoever opens it next joins what waits
        #expect(try text(bed.path("log"), bed) == "1\n2\n3\n")
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
        #expect(try text(bed.path("log"), bed) == "1\n2\n3\na\nb\n")
    }

    /// A daemon that was started while locked does not write to a segment for ever.
    @Test func aSegmentIsLeftAfterTheUnlock() throws {
        let bed = try FileTestBed()
        try log(bed, "1")
        try bed.keybag.lock()
        try log(bed, "2")
        let open = try SegmentedLog(bed.path("log"), keybag: bed.keybag)
        try open.append(line: "3")
        try bed.enter(.unlocked)
        usleep(1_100_000)
        try open.append(line: "4")
        #expect(try bed.names() == ["log"])
        // What others leave while it has the log open, it joins too.
        let other = try SegmentedLog(bed.path("log"), keybag: bed.keybag)
        try other.append(line: "5")
        try other.close()
        #expect(try bed.names() == ["log", "log.segment-1"])
        usleep(1_100_000)
        try open.append(line: "6")
        #expect(try bed.names() == ["log"])
        try open.close()
        #expect(try text(bed.path("log"), bed) == "1\n2\n3\n4\n5\n6\n")
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
            #expect(try text(bed.path(name), bed) == "\(line)\n")
        }
    }

    /// A missing log is replaced by its first segment, never over another file.
    @Test func theLogIsGone() throws {
        let bed = try FileTestBed()
        try log(bed, "1")
        try bed.keybag.lock()
        try log(bed, "2")
        try AtomicReplace.rename(bed.path("log"), to: bed.path("log.1"))
        try log(bed, "3")
        #expect(try bed.names() == ["log.1", "log.segment-1", "log.segment-2"])
        try bed.enter(.unlocked)
        try bed.keybag.performQueuedWork()
        #expect(try text(bed.path("log"), bed) == "2\n3\n")
        #expect(try text(bed.path("log.1"), bed) == "1\n")
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
        try log(bed, "1")
        try bed.keybag.lock()
        try log(bed, "2")
        try bed.path("log").remove()
        try bed.makePlain("log", Array("plain".utf8))
        try bed.enter(.unlocked)
        let outcomes = try bed.keybag.performQueuedWork().map(\.outcome)
        #expect(outcomes == [.failed(.notProtected(try bed.path("log").resolved()))])
        #expect(try bed.path("log").contents() == Array("plain".utf8))
        #expect(try text(bed.path("log.segment-1"), bed) == "2\n", "nothing is lost")
    }

    @Test func aDamagedSegmentHoldsNobodyUp() throws {
        let bed = try FileTestBed()
        try log(bed, "1")
        try bed.keybag.lock()
        for line in ["2", "3"] { try log(bed, line) }
        let segment = bed.path("log.segment-1")
        for head: UInt64 in [0, 4096] {
            try LowerFile(segment, flags: O_RDWR).write([UInt8](repeating: 7, count: 100), at: head + 200)
        }
        try bed.enter(.unlocked)
        try log(bed, "4")
        #expect(try text(bed.path("log"), bed) == "1\n3\n4\n")
        #expect(try bed.keybag.queuedWork().map(\.path) == [try segment.resolved()])
    }

    // MARK: kills

    private struct Bench {
        let bed = try! FileTestBed()
        var expected = ""

        /// A log with segments of all sizes, made while locked.
        init(hasLog: Bool) throws {
            if hasLog { try add("before") }
            try bed.keybag.lock()
            if !hasLog {
                // Begun, and then taken away, so that the first segment becomes the log.
                try add("gone")
                try add("")
                try bed.path("log").remove()
                expected = "\n"
            }
            for size in [10, 9000, 300_000] {
                try add((0..<size / 10).map { "line \(1000 + $0 % 9000)" }.joined(separator: "\n"))
            }
            try bed.enter(.unlocked)
        }

        private mutating func add(_ lines: String) throws {
            let log = try SegmentedLog(bed.path("log"), keybag: bed.keybag)
            try log.append(line: lines)
            try log.close()
            expected += lines + "\n"
        }
    }

    /// Killed on its way into one system call after the other, then done again: nothing lost, nothing doubled.
    @Test(
        .enabled(if: StormProcess.canKillAtCalls, "there is no strace(1) here that may trace"),
        arguments: ["pwrite64", "fsync", "fdatasync", "ftruncate", "link", "unlink"], [true, false])
    func joinKilledAtEveryCall(_ name: String, _ hasLog: Bool) throws {
        var kills = 0
        // The last calls matter as much as the first; a short run takes every third.
        for number in 1... {
            if Counts.kills <= 24, number > 4, number % 3 != 0 { continue }
            let bench = try Bench(hasLog: hasLog)
            let bed = bench.bed
            let call = StormProcess.Call(name: name, number: number)
            let worker = try StormProcess(bed, "join", seed: 0, first: 0, ["-"], until: call)
            if try worker.acknowledgement() != nil { break }  // all such calls are through
            kills += 1
            if number % 2 == 0 {
                let log = try SegmentedLog(bed.path("log"), keybag: bed.keybag)
                try log.append(line: "after")
                try log.close()
            } else {
                try bed.keybag.performQueuedWork()
            }
            let found = try text(bed.path("log"), bed)
            try #require(
                found == bench.expected + (number % 2 == 0 ? "after\n" : ""),
                "\(call), \(found.utf8.count) bytes for \(bench.expected.utf8.count)")
            #expect(try bed.names() == ["log"], "\(call)")
            #expect(bed.keybag.queuedWorkCount == 0, "\(call)")
        }
        #expect(kills > 0 || (name == "link" && hasLog), "nothing was killed")
        print("join, \(hasLog ? "with" : "without") a log, killed at \(kills) calls of \(name)")
    }

    /// A log of this process, a plain append and a rotation between a killed join and the next try.
    @Test(
        .enabled(if: StormProcess.canKillAtCalls, "there is no strace(1) here that may trace"), arguments: 1...6)
    func whatHappensBetweenAKilledJoinAndTheNext(_ number: Int) throws {
        let bench = try Bench(hasLog: true)
        let bed = bench.bed
        let call = StormProcess.Call(name: "fdatasync", number: number)
        _ = try? StormProcess(bed, "join", seed: 0, first: 0, ["-"], until: call).killed(after: nil)
        let file = try ProtectedFile.open(bed.path("log"), .readWrite, keybag: bed.keybag)
        try Array("other\n".utf8).withUnsafeBytes { _ = try file.append($0) }
        try file.close()
        try AtomicReplace.rename(bed.path("log"), to: bed.path("log.1"))
        try log(bed, "after")
        try bed.keybag.performQueuedWork()
        let all = try text(bed.path("log.1"), bed) + text(bed.path("log"), bed)
        #expect(
            all.split(separator: "\n").sorted() == (bench.expected + "other\nafter").split(separator: "\n").sorted())
        #expect(bed.keybag.queuedWorkCount == 0)
    }

    /// Lines, locks, unlocks, rotations and kills in any order: at the end each acknowledged line is there once, in order.
    @Test(arguments: [false, true]) func storm(_ rotates: Bool) throws {
        let bed = try FileTestBed()
        var generator = Randomised.generator("segmented log", rotates ? 1 : 0)
        var acknowledged: [Int] = []
        var inFlight: Set<Int> = []
        var next = 0
        let rounds = max(12, Counts.kills)
        for round in 0..<rounds {
            let worker = try StormProcess(
                bed, "log", seed: 0, first: next, [bed.path("log").string] + (rotates ? ["5"] : []))
            var last: Int?
            for _ in 0..<Int.random(in: 0...3, using: &generator) {
                for _ in 0..<Int.random(in: 0...6, using: &generator) { last = try worker.acknowledgement() ?? last }
                try bed.enter(Bool.random(using: &generator) ? .locked : .unlocked)
                if Int.random(in: 0..<3, using: &generator) == 0 { try bed.keybag.performQueuedWork() }
            }
            if last == nil || Bool.random(using: &generator) { usleep(.random(in: 0...30_000, using: &generator)) }
            last = try worker.kill(after: last)
            acknowledged += Array(next..<(last ?? next - 1) + 1)
            inFlight.insert((last ?? next - 1) + 1)
            next = (last ?? next - 1) + 2
            if round % 3 == 0 { try bed.enter(.allCases.randomElement(using: &generator)!) }
        }
        try bed.enter(.unlocked)
        try bed.keybag.performQueuedWork()
        #expect(bed.keybag.queuedWorkCount == 0)
        let parts = try RotatedLog(bed.path("log")).paths().filter { OwnDirectory.exists($0) }
        let oldestFirst = parts.sorted { Int($0.extension ?? "") ?? 0 > Int($1.extension ?? "") ?? 0 }
        let lines = try oldestFirst.flatMap { try text($0, bed).split(separator: "\n") }
        let numbers = try lines.map { try #require(Int($0.prefix { $0 != " " })) }
        #expect(numbers.filter { !inFlight.contains($0) } == acknowledged)
        #expect(Set(numbers).count == numbers.count, "a line is there twice")
        #expect(Set(numbers).subtracting(acknowledged).isSubset(of: inFlight))
        #expect(try bed.names().count == oldestFirst.count)
        print("segmented log: \(rounds) kills, \(acknowledged.count) lines in \(oldestFirst.count) files")
    }
}

extension ProtectionState: CaseIterable {
    public static let allCases: [ProtectionState] = [.beforeFirstUnlock, .unlocked, .locked]
}
