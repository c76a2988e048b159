import Synchronization

/// Pieces of work, one after the other, on a thread beside the caller's; on the caller's where the system makes none.
///
///     let work = BackgroundWork()
///     work.add { write(bytes) }
///     …
///     work.finish()
///
/// A limit on processes (RLIMIT_NPROC, or of a control group) can refuse a thread at any moment. A queue of Dispatch does not say so, and waits
/// until there is a thread, for ever perhaps.
package final class BackgroundWork: Sendable {
    package typealias Piece = @Sendable () -> Void

    private struct State {
        var waiting: [Piece] = []
        /// Whether somebody does what waits: a thread, or the caller of ``add(_:)``.
        var isAttended = false
    }
    private let state = Mutex(State())
    /// Signalled for each piece: a thread that has none waits for the next one for a moment.
    private let arrivals = TimedSemaphore()

    /// To make a thread for each piece would cost more than to keep one.
    private static let moment = Duration.milliseconds(10)

    package init() {}

    /// Does `piece` after all earlier ones. Returns at once, or where no thread can be made when it is done.
    ///
    /// - Parameter piece: must not call ``finish()``.
    package func add(_ piece: @escaping Piece) {
        let isFirst = state.withLock { state in
            state.waiting.append(piece)
            defer { state.isAttended = true }
            return !state.isAttended
        }
        arrivals.signal()
        guard isFirst else { return }
        do throws(POSIXThread.Refusal) {
            // The application's signals are for its own threads.
            try POSIXThread.detach(blocksSignals: true) { [self] in
                repeat { doWaiting() } while goesOn()
            }
        } catch {
            repeat { doWaiting() } while !leaves()
        }
    }

    /// Returns when everything that was added before is done.
    package func finish() {
        let isDone = TimedSemaphore()
        let mustWait = state.withLock { state in
            if state.isAttended { state.waiting.append { isDone.signal() } }
            return state.isAttended
        }
        guard mustWait else { return }
        arrivals.signal()
        isDone.wait()
    }

    private func doWaiting() {
        while let piece = state.withLock({ $0.waiting.isEmpty ? nil : $0.waiting.removeFirst() }) { piece() }
    }

    /// Whether there is another piece, perhaps.
    private func goesOn() -> Bool { arrivals.wait(for: Self.moment) || !leaves() }

    /// Leaves the work to the caller that adds the next piece; false if there is a piece already.
    private func leaves() -> Bool {
        state.withLock { state in
            if state.waiting.isEmpty { state.isAttended = false }
            return !state.isAttended
        }
    }
}

extension BackgroundWork {
    /// Does one piece on a thread of its own that nobody waits for; on the calling thread where the system makes none.
    package static func perform(_ piece: @escaping Piece) {
        do throws(POSIXThread.Refusal) { try POSIXThread.detach(blocksSignals: true, piece) } catch { piece() }
    }

    /// Does two pieces, at the same time where the system makes a thread. Returns when both are done.
    package static func perform(_ one: @escaping Piece, and other: () -> Void) {
        var thread: POSIXThread?
        do throws(POSIXThread.Refusal) { thread = try POSIXThread(blocksSignals: true, one) } catch { one() }
        other()
        thread?.join()
    }
}
