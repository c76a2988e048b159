import Glibc
import Synchronization
import Testing

@testable import POSIXThreads

@Suite("Work in the background")
struct BackgroundWorkTests {
    @Test("Pieces are done in order, beside the caller, and finish() waits for all of them")
    func order() throws {
        let work = BackgroundWork()
        let done = Mutex<[Int]>([])
        let others = Mutex(0)
        let caller = UInt(pthread_self())
        for number in 0..<1000 {
            work.add {
                done.withLock { $0.append(number) }
                if UInt(pthread_self()) != caller { others.withLock { $0 += 1 } }
            }
        }
        work.finish()
        #expect(done.withLock { $0 } == Array(0..<1000))
        #expect(others.withLock { $0 } == 1000)
    }

    @Test("The caller goes on while a piece is done")
    func concurrent() throws {
        let work = BackgroundWork()
        let begun = Mutex(false)
        let over = Mutex(false)
        work.add { while !begun.withLock({ $0 }) { usleep(100) } }
        work.add { over.withLock { $0 = true } }
        #expect(!over.withLock { $0 })
        begun.withLock { $0 = true }
        work.finish()
        #expect(over.withLock { $0 })
    }

    @Test("Pieces of several threads are all done, and after a rest there is work again")
    func severalThreads() throws {
        let work = BackgroundWork()
        let count = Mutex(0)
        for round in 1...3 {
            let threads = try (0..<4).map { _ in
                try POSIXThread { @Sendable () in for _ in 0..<100 { work.add { count.withLock { $0 += 1 } } } }
            }
            for thread in threads { thread.join() }
            work.finish()
            #expect(count.withLock { $0 } == 400 * round)
            usleep(30_000)  // longer than its thread waits for more
        }
        work.finish()
    }

    @Test("An object that a piece of work holds is released when the work is done")
    func releases() throws {
        final class Held: Sendable {}
        let work = BackgroundWork()
        var held: Held? = Held()
        weak let watched = held
        work.add { [held] in withExtendedLifetime(held) {} }
        held = nil
        work.finish()
        for _ in 0..<1000 where watched != nil { usleep(1000) }
        #expect(watched == nil)
    }

    @Test("Two pieces are done at the same time")
    func both() throws {
        let one = Mutex(false)
        let other = Mutex(false)
        BackgroundWork.perform {
            one.withLock { $0 = true }
            while !other.withLock({ $0 }) { usleep(100) }
        } and: {
            other.withLock { $0 = true }
            while !one.withLock({ $0 }) { usleep(100) }
        }
        #expect(one.withLock { $0 } && other.withLock { $0 })
    }

    /// In a child, whose limit is nobody else's. Without room for a stack there is no thread.
    @Test("Where the system makes no thread, all of it is done by the caller before it goes on")
    func noThread() async {
        await #expect(processExitsWith: .success) {
            let work = BackgroundWork()
            let done = Mutex<[Int]>([])
            var none = rlimit(rlim_cur: 0, rlim_max: 0)
            guard setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &none) == 0 else { exit(2) }
            do throws(POSIXThread.Refusal) {
                _ = try StandingThread()
                exit(3)
            } catch {}
            work.add {
                done.withLock { $0.append(1) }
                // In order here, too.
                work.add { done.withLock { $0.append(3) } }
                done.withLock { $0.append(2) }
            }
            guard done.withLock({ $0 }) == [1, 2, 3] else { exit(4) }
            work.finish()
            BackgroundWork.perform { done.withLock { $0.append(4) } }
            BackgroundWork.perform {
                done.withLock { $0.append(5) }
            } and: {
                done.withLock { $0.append(6) }
            }
            exit(done.withLock { $0 } == [1, 2, 3, 4, 5, 6] ? 0 : 5)
        }
    }
}

@Suite("A thread that stays")
struct StandingThreadTests {
    @Test("It does each piece at its time, and those of one time in order")
    func times() throws {
        let thread = try StandingThread()
        let done = Mutex<[Int]>([])
        for (number, milliseconds) in [(4, 400), (3, 200), (1, 0), (2, 0)] as [(Int, UInt64)] {
            thread.add(after: milliseconds * 1_000_000) { done.withLock { $0.append(number) } }
        }
        for _ in 0..<2000 where done.withLock({ $0.count }) < 4 { usleep(5_000) }
        #expect(done.withLock { $0 } == [1, 2, 3, 4])
    }

    @Test("Work that still waits when nobody has the thread any more is not done, and is released")
    func ends() throws {
        final class Held: Sendable {}
        var held: Held? = Held()
        weak let watched = held
        var thread: StandingThread? = try StandingThread()
        thread?.add(after: .max) { [held] in withExtendedLifetime(held) {} }
        held = nil
        #expect(watched != nil)
        thread = nil
        for _ in 0..<1000 where watched != nil { usleep(1000) }
        #expect(watched == nil)
    }
}
