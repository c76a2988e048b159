import Glibc
import Testing

@testable import POSIXThreads

@Suite("A semaphore with a time limit")
struct TimedSemaphoreTests {
    @Test("A signal before or during a wait ends it, each signal one; without one the time does")
    func signals() throws {
        let semaphore = TimedSemaphore()
        #expect(!semaphore.wait(for: .zero) && !semaphore.wait(for: .seconds(-1)))
        let before = TimedSemaphore.now()
        #expect(!semaphore.wait(for: .milliseconds(50)))
        #expect(TimedSemaphore.now() - before >= 50_000_000)
        semaphore.signal()
        semaphore.signal()
        semaphore.wait()
        #expect(semaphore.wait(for: .zero) && !semaphore.wait(for: .zero))
        let thread = try POSIXThread {
            usleep(20_000)
            semaphore.signal()
        }
        #expect(semaphore.wait(until: .max))
        thread.join()
        semaphore.signal()
        #expect(semaphore.wait(for: .seconds(Int64.max)))
    }
}
