import Glibc
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// Starts a worker, kills it, looks at what is left, and again.
struct Storm {
    let bed: FileTestBed
    let name: String
    let seed: UInt64
    let kills: Int
    private(set) var generator: SeededGenerator
    /// Kills so far, and the steps that were acknowledged before them.
    private(set) var killed = 0
    private(set) var acknowledged = 0

    init(_ name: String, _ bed: FileTestBed) {
        self.bed = bed
        self.name = name
        generator = Randomised.generator("storm, \(name)", name.utf8.reduce(UInt64(7)) { $0 &* 31 &+ UInt64($1) })
        seed = generator.next() >> 16
        kills = Randomised.kills(of: 16)
    }

    /// One kill: after a random number of acknowledgements and, half of the time, a random moment more.
    ///
    /// - Parameters:
    ///   - first: the first step of the worker.
    ///   - others: run beside it until it is killed.
    /// - Returns: the last acknowledged step; `first - 1` if there was none.
    mutating func kill(_ workload: String, from first: Int, _ rest: [String]) throws -> Int {
        let worker = try StormProcess(bed, workload, seed: seed, first: first, rest)
        var last: Int?
        for _ in 0..<Int.random(in: 0...8, using: &generator) { last = try worker.acknowledgement() ?? last }
        if last == nil || Bool.random(using: &generator) {
            usleep(UInt32.random(in: 0...(last == nil ? 60_000 : 15_000), using: &generator))
        }
        last = try worker.kill(after: last)
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
