import Glibc
import Synchronization
import Testing

@testable import POSIXThreads

@Suite("A thread with a closure")
struct POSIXThreadTests {
    @Test("The body runs on another thread, and join() waits for it")
    func joins() throws {
        let other = Mutex<pthread_t?>(nil)
        try POSIXThread { other.withLock { $0 = pthread_self() } }.join()
        let id = try #require(other.withLock { $0 })
        #expect(pthread_equal(id, pthread_self()) == 0)
    }

    @Test("An object that the body holds is released when the thread has ended")
    func releases() throws {
        final class Held: Sendable {}
        var held: Held? = Held()
        weak let watched = held
        let thread = try POSIXThread { [held] in withExtendedLifetime(held) {} }
        held = nil
        thread.join()
        #expect(watched == nil)
    }

    @Test("A detached thread runs, too")
    func detaches() throws {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        let (reader, writer) = (ends[0], ends[1])
        defer { close(reader) }
        try POSIXThread.detach { close(writer) }
        var byte: UInt8 = 0
        #expect(read(reader, &byte, 1) == 0, "the end of the pipe")
    }

    @Test("run() may change what is the caller's")
    func runs() throws {
        var count = 0
        try POSIXThread.run { count += 1 }
        #expect(count == 1)
    }

    @Test("The signal mask is the caller's, or full; the caller's own stays as it was", arguments: [false, true])
    func signals(blocksSignals: Bool) throws {
        let isBlocked = Mutex<Bool?>(nil)
        let before = Self.isBlocked(SIGUSR2)
        try POSIXThread(blocksSignals: blocksSignals) {
            let now = Self.isBlocked(SIGUSR2)
            isBlocked.withLock { $0 = now }
        }.join()
        #expect(isBlocked.withLock { $0 } == (blocksSignals || before))
        #expect(Self.isBlocked(SIGUSR2) == before)
    }

    private static func isBlocked(_ signal: Int32) -> Bool {
        var mask = sigset_t()
        pthread_sigmask(SIG_BLOCK, nil, &mask)
        return sigismember(&mask, signal) == 1
    }

    /// In a child, whose limit is nobody else's. Without room for a stack there is no thread.
    @Test("A thread that the system refuses is an error, and the objects that its body holds are released")
    func refused() async {
        await #expect(processExitsWith: .success) {
            final class Held: Sendable {}
            var held: Held? = Held()
            weak let watched = held
            var none = rlimit(rlim_cur: 0, rlim_max: 0)
            guard setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &none) == 0 else { exit(2) }
            do throws(POSIXThread.Refusal) {
                try POSIXThread { [held] in withExtendedLifetime(held) {} }.join()
                exit(3)
            } catch {
                guard error.code == EAGAIN || error.code == ENOMEM else { exit(4) }
            }
            held = nil
            exit(watched == nil ? 0 : 5)
        }
    }
}
