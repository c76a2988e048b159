import Glibc

/// A thread of the system with a closure for its body: pthread_create(3).
///
///     let thread = try POSIXThread { work() }
///     …
///     thread.join()
///
/// Foundation has threads too, but says nothing when the system refuses one. The stack has the size that the system
/// gives every thread. The signal mask is the caller's, unless the body is not to be interrupted at all.
package struct POSIXThread: Sendable {
    private let id: pthread_t

    /// Why the system made no thread.
    package struct Refusal: Error, Hashable {
        /// What pthread_create(3) returned, an errno: EAGAIN if there are as many threads as may be.
        package let code: Int32

        package init(code: Int32) { self.code = code }
    }

    /// Starts a thread. Call ``join()`` once, or its stack stays for as long as the process lives.
    ///
    /// - Parameter blocksSignals: whether no signal is handled on this thread. Signals of an application are for its own.
    package init(
        blocksSignals: Bool = false, _ body: sending @escaping () -> Void
    ) throws(Refusal) {
        // The thread begins with the mask of the one that makes it: no signal falls in between.
        var before = sigset_t()
        if blocksSignals {
            var all = sigset_t()
            sigfillset(&all)
            pthread_sigmask(SIG_SETMASK, &all, &before)
        }
        defer { if blocksSignals { pthread_sigmask(SIG_SETMASK, &before, nil) } }
        let argument = Unmanaged.passRetained(Work(body))
        var id = pthread_t()
        let failure = pthread_create(
            &id, nil,
            { argument in
                // In a function of its own: everything that the body holds is let go before the thread ends.
                Work.run(argument)
                return nil
            }, argument.toOpaque())
        guard failure == 0 else {
            argument.release()
            throw Refusal(code: failure)
        }
        self.id = id
    }

    /// Waits until the body has returned.
    package func join() { pthread_join(id, nil) }

    /// Starts a thread that nobody waits for.
    package static func detach(
        blocksSignals: Bool = false, _ body: sending @escaping () -> Void
    ) throws(Refusal) {
        pthread_detach(try POSIXThread(blocksSignals: blocksSignals, body).id)
    }

    /// Runs `body` on a thread of its own and waits for it. What it changes may be read afterwards.
    package static func run(_ body: () -> Void) throws(Refusal) {
        let refusal: Refusal? = withoutActuallyEscaping(body) { body in
            // Used by one thread at a time: the caller waits here.
            nonisolated(unsafe) let body = body
            do throws(Refusal) { try POSIXThread { body() }.join() } catch { return error }
            return nil
        }
        if let refusal { throw refusal }
    }
}

private final class Work {
    private let body: () -> Void

    init(_ body: @escaping () -> Void) { self.body = body }

    @inline(never)
    static func run(_ work: UnsafeMutableRawPointer?) {
        guard let work else { return }
        Unmanaged<Work>.fromOpaque(work).takeRetainedValue().body()
    }
}
