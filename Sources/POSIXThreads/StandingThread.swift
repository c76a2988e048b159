import Synchronization

/// A thread that is made at once and stays, for work that has to be done when the system makes no more threads, and not on the caller's.
///
/// It does one piece after the other, each at its time. It ends with the last reference to this object; what waits then is not done.
package final class StandingThread: Sendable {
    package typealias Piece = @Sendable () -> Void

    /// What the thread knows. It keeps this, and not the object itself.
    private final class Schedule: Sendable {
        struct State {
            /// `time` as of ``TimedSemaphore/now()``.
            var waiting: [(time: UInt64, piece: Piece)] = []
            var isOver = false
        }
        let state = Mutex(State())
        let hasChanged = TimedSemaphore()

        enum Next {
            case piece(Piece)
            /// As of ``TimedSemaphore/now()``.
            case wait(until: UInt64)
            case end
        }

        func next() -> Next {
            state.withLock { state in
                if state.isOver { return .end }
                // The first of those with the earliest time.
                let times = state.waiting.map(\.time)
                guard let earliest = times.min(), let index = times.firstIndex(of: earliest) else {
                    return .wait(until: .max)
                }
                if earliest > TimedSemaphore.now() { return .wait(until: earliest) }
                return .piece(state.waiting.remove(at: index).piece)
            }
        }

        func run() {
            while true {
                switch next() {
                case .piece(let piece): piece()
                case .wait(let time): _ = hasChanged.wait(until: time)
                case .end: return
                }
            }
        }
    }
    private let schedule = Schedule()

    /// - Throws: the system makes no thread.
    package init() throws(POSIXThread.Refusal) {
        try POSIXThread.detach(blocksSignals: true) { [schedule] in schedule.run() }
    }

    deinit {
        schedule.state.withLock { $0.isOver = true }
        schedule.hasChanged.signal()
    }

    /// Does `piece` in `nanoseconds` from now, or when the piece that it is at then is done.
    package func add(after nanoseconds: UInt64 = 0, _ piece: @escaping Piece) {
        let now = TimedSemaphore.now()
        let (time, overflows) = now.addingReportingOverflow(nanoseconds)
        schedule.state.withLock { $0.waiting.append((overflows ? .max : time, piece)) }
        schedule.hasChanged.signal()
    }
}
