import Glibc
import ProtectionKeys
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// Many processes in the order of locks and unlocks.
@Suite("Locks in a storm")
struct LockProofStormTests {
    @Test("Many lockers and unlockers starve no lock", .timeLimit(.minutes(20)))
    func storm() throws {
        let bag = try TestKeybag(state: .unlocked)
        let turns = Effort.count(30, 1_000)
        // With a registry of their own: other tests have made hundreds of keybags, and a lock looks through them.
        let environment = ["env", "XDG_STATE_HOME=\(bag.scratchPath)"]
        let lockers = try (0..<4).map { _ in
            try StormProcess(bag.directory, ["turns", "lock", "\(turns)"], wrapper: environment)
        }
        let unlockers = try (0..<4).map { _ in
            try StormProcess(
                bag.directory, ["turns", "unlock", "\(turns)", TestKeybag.passcode], wrapper: environment)
        }
        let locked = try lockers.map { try #require(try $0.line()) }
        let unlocked = try unlockers.map { try #require(try $0.line()) }
        for line in locked { #expect(line == "\(turns) 0", "nobody was stopped") }
        for line in unlocked {
            #expect(line.split(separator: " ").compactMap { Int($0) }.reduce(0, +) == turns, "\(line)")
        }
        print("locks proven, not proven: \(locked); unlocks that won, that met a lock: \(unlocked)")
        try bag.keybag.lock()
        #expect(bag.ringContents == [2])
    }

    @Test("Beside a stopped process no lock is proven, and each is again when that goes on")
    func stopped() throws {
        let bag = try TestKeybag(state: .unlocked)
        let holder = try StormProcess(bag.directory, ["turns", "stay"])
        #expect(try holder.line() == "ready")
        holder.stop()
        let stopped = try (0..<4).map { _ in try StormProcess(bag.directory, ["turns", "lock", "2"]) }
        for locker in stopped { #expect(try locker.line() == "0 2") }
        try holder.say("go on")
        kill(holder.pid, SIGCONT)
        #expect(try holder.line() == "done")
        let free = try (0..<4).map { _ in try StormProcess(bag.directory, ["turns", "lock", "20"]) }
        for locker in free { #expect(try locker.line() == "20 0") }
    }
}
