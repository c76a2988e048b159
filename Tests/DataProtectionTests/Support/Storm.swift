import Glibc
import StormScript
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// Starts a worker, kills it, looks at what is left, and again.
struct Storm {
    /// When the worker is killed.
    enum Moment: String, CaseIterable, Sendable {
        /// After some acknowledgements and some time.
        case anyTime = "at any time"
        /// On the way into one system call that changes a file after the other, by strace(1).
        case everyCall = "at every call"
    }

    let bed: FileTestBed
    let name: String
    let moment: Moment
    let seed: UInt64
    var kills: Int { calls.isEmpty ? randomKills : calls.count }
    private(set) var generator: SeededGenerator
    /// Kills so far, and the steps that were acknowledged before them.
    private(set) var killed = 0
    private(set) var acknowledged = 0

    private let randomKills: Int
    /// The system calls that are killed at, in this order; empty: the moments are random.
    private let calls: [StormProcess.Call]

    /// - Parameters:
    ///   - calls: all kinds that the workload makes over and over.
    ///   - count: how many calls of each kind there are to kill at. Of these a slice.
    init(_ name: String, _ moment: Moment, _ bed: FileTestBed, calls: [String], each count: Int = 20) {
        self.bed = bed
        self.name = "\(name), \(moment.rawValue)"
        self.moment = moment
        generator = Effort.generator("storm, \(name)", name.utf8.reduce(UInt64(7)) { $0 &* 31 &+ UInt64($1) })
        seed = generator.next() >> 16
        let isTraced = moment == .everyCall && StormProcess.canKillAtCalls
        if moment == .everyCall, !isTraced { print("skipped: \(name): there is no strace(1) here that may trace") }
        randomKills = moment == .anyTime ? Effort.count(2, 13) : 0
        let numbers = isTraced ? Effort.slice(of: 1...count) : []
        self.calls = numbers.flatMap { number in calls.map { StormProcess.Call(name: $0, number: number) } }
    }

    /// One kill: after a random number of acknowledgements and, half of the time, a random moment more.
    ///
    /// - Parameters:
    ///   - first: the first step of the worker.
    ///   - others: run beside it until it is killed.
    /// - Returns: the last acknowledged step; `first - 1` if there was none.
    mutating func kill(_ workload: String, from first: Int, _ rest: [String]) throws -> Int {
        var last: Int?
        if moment == .everyCall {
            let process = try StormProcess(bed, workload, seed: seed, first: first, rest, until: calls[killed])
            last = try process.killed(after: nil)
            return count(last, from: first)
        }
        let worker = try StormProcess(bed, workload, seed: seed, first: first, rest)
        for _ in 0..<Int.random(in: 0...8, using: &generator) { last = try worker.acknowledgement() ?? last }
        if last == nil || Bool.random(using: &generator) {
            usleep(UInt32.random(in: 0...(last == nil ? 60_000 : 15_000), using: &generator))
        }
        return count(try worker.kill(after: last), from: first)
    }

    private mutating func count(_ last: Int?, from first: Int) -> Int {
        killed += 1
        acknowledged += (last ?? first - 1) - first + 1
        return last ?? first - 1
    }

    /// Says what was done.
    func report() { print("storm, \(name): \(killed) kills, \(acknowledged) acknowledged steps before them") }
}

extension Sequence<UInt8> {
    /// Short enough for a message.
    var brief: String {
        let bytes = Array(self)
        return "\(bytes.count) bytes, \(bytes.prefix(8))"
    }
}
