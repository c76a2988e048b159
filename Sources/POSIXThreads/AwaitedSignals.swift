import Glibc

/// Signals that a thread waits for: sigwait(3). Nothing has to be made when one comes.
package enum AwaitedSignals {
    /// Calls `body` for each of these signals that comes from now on, on one thread.
    ///
    /// The signals are blocked on the calling thread, and on those that it makes later. Call this before any other thread is there.
    package static func each(
        of signals: [Int32], _ body: @escaping @Sendable () -> Void
    ) throws(POSIXThread.Refusal) {
        var set = sigset_t()
        sigemptyset(&set)
        for signal in signals { sigaddset(&set, signal) }
        pthread_sigmask(SIG_BLOCK, &set, nil)
        try POSIXThread.detach(blocksSignals: true) { [set] in
            var set = set
            while true {
                var number: Int32 = 0
                if sigwait(&set, &number) == 0 { body() }
            }
        }
    }
}
