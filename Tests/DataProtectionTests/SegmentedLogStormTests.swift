import Foundation
import StormScript
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// No line of a log is lost or doubled, whoever is killed wherever.
@Suite struct SegmentedLogStormTests {
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
        arguments: ["pwrite64", "fsync", "fdatasync", "ftruncate", "linkat", "unlink", "unlinkat"], [true, false])
    func joinKilledAtEveryCall(_ name: String, _ hasLog: Bool) throws {
        var kills = 0
        for number in 1... where number == 1 || Effort.includes(number) {
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
            let found = try bed.text(bed.path("log"))
            try #require(
                found == bench.expected + (number % 2 == 0 ? "after\n" : ""),
                "\(call), \(found.utf8.count) bytes for \(bench.expected.utf8.count)")
            #expect(try bed.names() == ["log"], "\(call)")
            #expect(bed.keybag.queuedWorkCount == 0, "\(call)")
        }
        #expect(kills > 0 || (name == "linkat" && hasLog), "nothing was killed")
        print("storm, queue: segments \(hasLog ? "and" : "without") a log, at every \(name): \(kills) kills")
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
        try bed.log("after")
        try bed.keybag.performQueuedWork()
        let all = try bed.text(bed.path("log.1")) + bed.text(bed.path("log"))
        #expect(
            all.split(separator: "\n").sorted() == (bench.expected + "other\nafter").split(separator: "\n").sorted())
        #expect(bed.keybag.queuedWorkCount == 0)
    }

    /// Lines, locks, unlocks, rotations and kills in any order: at the end each acknowledged line is there once, in order.
    @Test(arguments: [false, true]) func storm(_ rotates: Bool) throws {
        let bed = try FileTestBed()
        var generator = Effort.generator("segmented log", rotates ? 1 : 0)
        var acknowledged: [Int] = []
        var inFlight: Set<Int> = []
        var next = 0
        let rounds = Effort.count(12, 200)
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
        let lines = try oldestFirst.flatMap { try bed.text($0).split(separator: "\n") }
        let numbers = try lines.map { try #require(Int($0.prefix { $0 != " " })) }
        #expect(numbers.filter { !inFlight.contains($0) } == acknowledged)
        #expect(Set(numbers).count == numbers.count, "a line is there twice")
        #expect(Set(numbers).subtracting(acknowledged).isSubset(of: inFlight))
        #expect(try bed.names().count == oldestFirst.count)
        let name = rotates ? "log, rotated" : "log"
        print("storm, \(name), at any time: \(rounds) kills, \(acknowledged.count) acknowledged steps")
    }

    /// Two processes with one log, both of which rotate: no line is refused, lost or doubled, and each one's are in order.
    @Test func twoProcesses() throws {
        let bed = try FileTestBed()
        let firsts = [0, 1_000_000]
        let workers = try firsts.map {
            try StormProcess(bed, "log", seed: 0, first: $0, [bed.path("log").string, "2"])
        }
        var last = [-1, -1]
        for round in 0..<150 {
            for index in 0...1 { last[index] = try #require(try workers[index].acknowledgement()) }
            if round % 50 == 25 { try bed.keybag.lock() }
            if round % 50 == 40 { try bed.enter(.unlocked) }
        }
        for index in 0...1 { last[index] = try #require(try workers[index].kill(after: last[index])) }
        try bed.enter(.unlocked)
        try bed.keybag.performQueuedWork()
        let parts = try RotatedLog(bed.path("log")).paths().filter { OwnDirectory.exists($0) }
        let oldestFirst = parts.sorted { Int($0.extension ?? "") ?? 0 > Int($1.extension ?? "") ?? 0 }
        let numbers = try oldestFirst.flatMap { try bed.text($0).split(separator: "\n") }
            .map { try #require(Int($0.prefix { $0 != " " })) }
        for index in 0...1 {
            let own = numbers.filter { ($0 >= 1_000_000) == (index == 1) }
            #expect(own.filter { $0 <= last[index] } == Array(firsts[index]...last[index]))
            #expect(own.count - (last[index] - firsts[index] + 1) <= 1)
        }
        #expect(try bed.names().count == oldestFirst.count)
    }
}
