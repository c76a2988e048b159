import Glibc

/// A semaphore whose waits end by CLOCK_MONOTONIC. Those of Dispatch end by the wall clock on Linux: they last longer when that is set back.
///
/// It needs no thread. pthread_cond_timedwait(3p).
package final class TimedSemaphore: @unchecked Sendable {  // `count` is used under the mutex only
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var count = 0

    package init() {
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(condition, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    package func signal() {
        pthread_mutex_lock(mutex)
        count += 1
        pthread_cond_signal(condition)
        pthread_mutex_unlock(mutex)
    }

    package func wait() { _ = wait(until: .max) }

    /// - Returns: whether it was signalled.
    package func wait(for duration: Duration) -> Bool {
        let nanoseconds = max(duration / .nanoseconds(1), 0)
        let left = nanoseconds < Double(UInt64.max / 4) ? UInt64(nanoseconds) : .max / 4
        return wait(until: Self.now() + left)
    }

    /// - Parameter end: nanoseconds of CLOCK_MONOTONIC; the greatest: never.
    /// - Returns: whether it was signalled.
    package func wait(until end: UInt64) -> Bool {
        var time = timespec(tv_sec: Int(end / 1_000_000_000), tv_nsec: Int(end % 1_000_000_000))
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while count == 0 {
            if end == .max {
                pthread_cond_wait(condition, mutex)
            } else if pthread_cond_timedwait(condition, mutex, &time) == ETIMEDOUT, count == 0 {
                return false
            }
        }
        count -= 1
        return true
    }

    /// CLOCK_MONOTONIC in nanoseconds.
    package static func now() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
