import Dispatch
import POSIXThreads

/// Whether the system would make the threads that downloads run on.
///
/// Swift's tasks run on threads that are made when they are needed. Where a limit on processes (RLIMIT_NPROC, or of a control group) refuses
/// one, the tasks wait for ever, and nothing is said.
enum SpareThreads {
    /// Tasks, the thread of libcurl, that of the list's alarm, and that of the lock's listener.
    private static let count = 4

    /// Makes them all at once, and ends them.
    ///
    /// - Throws: a ``Failure`` if the system refuses one.
    static func require() throws {
        let mayEnd = DispatchSemaphore(value: 0)
        var threads: [POSIXThread] = []
        defer {
            for _ in threads { mayEnd.signal() }
            for thread in threads { thread.join() }
        }
        do throws(POSIXThread.Refusal) {
            for _ in 0..<count { threads.append(try POSIXThread(blocksSignals: true) { mayEnd.wait() }) }
        } catch {
            throw Failure(
                .systemRefused, "there are no threads for downloads: \(Errno(rawValue: error.code).spoken)",
                hint: "end some processes of this user, or raise the limit: ulimit -u")
        }
    }
}
