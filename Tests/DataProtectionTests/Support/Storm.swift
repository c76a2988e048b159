import Glibc
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// Starts a worker, kills it, looks at what is left, and again.
struct Storm {
    /// When the worker is killed.
    enum Moment: String, CaseIterable, Sendable {
        /// After some acknowledgements and some time.
        case anyTime = "at any time"
        /// At one system call that changes a file after the other, by strace(1).
        case everyCall = "at every call"
    }

    let bed: FileTestBed
    let name: String
    let moment: Moment
    let seed: UInt64
    let kills: Int
    private(set) var generator: SeededGenerator
    /// Kills so far, and the steps that were acknowledged before them.
    private(set) var killed = 0
    private(set) var acknowledged = 0

    /// - Parameter calls: how many calls are killed at, one after the other; nil: a sample unless all kills are asked for.
    init(_ name: String, _ moment: Moment, _ bed: FileTestBed, calls: Int? = nil) {
        self.bed = bed
        self.name = "\(name), \(moment.rawValue)"
        self.moment = moment
        generator = Randomised.generator("storm, \(name)", name.utf8.reduce(UInt64(7)) { $0 &* 31 &+ UInt64($1) })
        seed = generator.next() >> 16
        let kills = Randomised.kills(of: 16)
        switch moment {
        case .anyTime: self.kills = kills
        case .everyCall where !StormProcess.canKillAtCalls:
            print("skipped: \(self.name): there is no strace(1) here that may trace")
            self.kills = 0
        case .everyCall: self.kills = calls ?? (kills > 10 ? 40 : kills)
        }
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
            let call = kills > 10 ? killed + 1 : Int.random(in: 1...40, using: &generator)
            last = try StormProcess(bed, workload, seed: seed, first: first, rest, untilCall: call).killed(after: nil)
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
