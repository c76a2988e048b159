import Glibc
import POSIXThreads

/// A lock that one can wait at: pthread_mutex(3) and pthread_cond(3).
final class Monitor: @unchecked Sendable {  // what it is for
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

    init() {
        pthread_mutex_init(mutex, nil)
        pthread_cond_init(condition, nil)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    func lock() { pthread_mutex_lock(mutex) }
    func unlock() { pthread_mutex_unlock(mutex) }
    /// With the lock held. May return without a signal.
    func wait() { pthread_cond_wait(condition, mutex) }
    func signal() { pthread_cond_signal(condition) }
}

/// A thread that nobody waits for.
enum DetachedThread {
    /// - Returns: false if the system refuses.
    static func start(_ body: @escaping @Sendable () -> Void) -> Bool {
        do throws(POSIXThread.Refusal) { try POSIXThread.detach(body) } catch { return false }
        return true
    }
}
