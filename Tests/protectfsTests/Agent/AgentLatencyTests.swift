import Foundation
import Testing

@testable import DataProtection

/// For docs/design/BENCHMARKS.md: from logind's Lock to the keys gone. Prints, and expects nothing of a time.
@Suite("How long a lock takes by way of the bus")
struct AgentLatencyTests {
    @Test(
        "Without grace, from the signal until a search says that the keys have gone, and until everybody has answered",
        arguments: [0, 100, 10_000])
    func latency(openHandles: Int) throws {
        let asked = ProcessInfo.processInfo.environment["PROTECTFS_LATENCY_ROUNDS"].flatMap { Int($0) }
        guard asked != nil || openHandles < 1000 else {
            // Swift 6.3's Process reads 256 bytes for each name in /proc/self/fd, and with more of them than fit into the 32 KiB that
            // opendir(3) has, beyond its end: where nothing is behind it, any other test that starts a program crashes.
            print("AgentLatencyTests, \(openHandles) handles, skipped: run alone, with PROTECTFS_LATENCY_ROUNDS")
            return
        }
        let rounds = asked ?? 5
        let bed = try AgentBed("--grace", "0")
        guard let handles = try handles(openHandles, bed.sandbox, bed.keybag) else { return }
        var milliseconds: [Double] = []
        var answered: [Double] = []
        for _ in 0..<rounds {
            try bed.sandbox.unlock()
            for handle in handles { _ = try handle.size() }
            let watch = RingWatch(bed.keybag)
            let begin = try bed.bus.lockTimed("1")
            milliseconds.append(Double(watch.end() - begin) / 1_000_000)
            while bed.keybag.clients().contains(where: { !$0.hasAnswered }) {}
            answered.append(Double(DispatchTime.now().uptimeNanoseconds - begin) / 1_000_000)
            #expect(try bed.state == .locked)
        }
        milliseconds.sort()
        answered.sort()
        print(
            "Lock to last key gone, \(openHandles) open handles, \(rounds) rounds: median \(milliseconds[rounds / 2]) ms, "
                + "least \(milliseconds[0]) ms, most \(milliseconds[rounds - 1]) ms; "
                + "answered: median \(answered[rounds / 2]) ms, most \(answered[rounds - 1]) ms")
    }

    /// So many open class A files; nil if the system gives no process so many descriptors.
    private func handles(_ count: Int, _ sandbox: CommandSandbox, _ keybag: Keybag) throws -> [ProtectedFile]? {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let wanted = rlim_t(count) + 1000
        guard limit.rlim_max >= wanted else {
            print("AgentLatencyTests, \(count) handles, skipped: a process may have \(limit.rlim_max) descriptors")
            return nil
        }
        limit.rlim_cur = max(limit.rlim_cur, wanted)
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        try sandbox.protectedFile("file")
        return try (0..<count).map { _ in
            try ProtectedFile.open(FilePath(sandbox.path("file")), .readOnly, keybag: keybag)
        }
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
