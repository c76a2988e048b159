import Foundation
import StormScript

/// How much randomised tests do, and from which seed: printed, and taken from the environment to do it again.
enum Randomised {
    /// `PROTECTFS_SEED`, or one of this moment.
    static let seed: UInt64 = {
        let given = ProcessInfo.processInfo.environment["PROTECTFS_SEED"].flatMap { UInt64($0) }
        return given ?? UInt64.random(in: 1...UInt64(UInt32.max))
    }()

    /// The number in an environment variable, or what a short run does.
    static func count(_ variable: String, short: Int) -> Int {
        ProcessInfo.processInfo.environment[variable].flatMap { Int($0) } ?? short
    }

    /// `PROTECTFS_KILLS` spread over `workloads`: at least one each.
    static func kills(of workloads: Int) -> Int {
        max(1, (count("PROTECTFS_KILLS", short: 24) + workloads / 2) / workloads)
    }

    /// Whether every byte is tampered with, not a sample.
    static var isTamperFull: Bool { ProcessInfo.processInfo.environment["PROTECTFS_TAMPER"] == "full" }

    /// A generator for one test, with the line that repeats it.
    static func generator(_ test: String, _ salt: UInt64 = 0) -> SeededGenerator {
        print("\(test): PROTECTFS_SEED=\(seed)")
        return SeededGenerator(seed: seed &* 0x9E37_79B9 &+ salt)
    }
}
