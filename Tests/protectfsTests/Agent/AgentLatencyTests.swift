import Foundation
import Testing

@testable import DataProtection

/// For docs/BENCHMARKS.md: from logind's Lock to the keys gone. Prints, and expects nothing of a time.
@Suite("How long a lock takes by way of the bus")
struct AgentLatencyTests {
    @Test("Without grace, from the signal until a search says that the keys have gone")
    func latency() throws {
        let rounds = ProcessInfo.processInfo.environment["PROTECTFS_LATENCY_ROUNDS"].flatMap { Int($0) } ?? 5
        let bed = try AgentBed("--grace", "0")
        var milliseconds: [Double] = []
        for _ in 0..<rounds {
            try bed.sandbox.unlock()
            let watch = RingWatch(bed.keybag)
            let begin = try bed.bus.lockTimed("1")
            milliseconds.append(Double(watch.end() - begin) / 1_000_000)
            #expect(try bed.state == .locked)
        }
        milliseconds.sort()
        print(
            "Lock to last key gone, \(rounds) rounds: median \(milliseconds[rounds / 2]) ms, "
                + "least \(milliseconds[0]) ms, most \(milliseconds[rounds - 1]) ms")
    }

    /// Searches the ring on and on, on a thread of its own, and notes when the key has gone.
    private final class RingWatch: @unchecked Sendable {  // written by one thread, read after it has ended
        private var nanoseconds: UInt64 = 0
        private let isOver = DispatchSemaphore(value: 0)

        init(_ keybag: Keybag) {
            Thread.detachNewThread { [self] in
                while (try? keybag.ring.unlocked.find()) != nil {}
                nanoseconds = DispatchTime.now().uptimeNanoseconds
                isOver.signal()
            }
        }

        func end() -> UInt64 {
            isOver.wait()
            return nanoseconds
        }
    }
}
