import POSIXThreads
import SessionLock
import Synchronization

/// What the agent hears from any thread, in the order in which it came.
///
/// No queue of Dispatch and no task of Swift: where the user may have no more threads they would wait for one, and nothing would lock.
final class Inbox: Sendable {
    enum Item: Sendable {
        case session(SessionEvent)
        /// Time to look whether somebody has unlocked or locked by hand.
        case look
        case end
    }

    private let items = Mutex<[Item]>([])
    private let isFilled = TimedSemaphore()

    func put(_ item: Item) {
        items.withLock { $0.append(item) }
        isFilled.signal()
    }

    /// Waits for the next item.
    ///
    /// - Parameter deadline: by ``BootClock``; nil: never.
    /// - Returns: nil if there was none until then.
    func next(until deadline: Duration?) -> Item? {
        while true {
            if let item = items.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { return item }
            guard let deadline else {
                isFilled.wait()
                continue
            }
            let left = deadline - BootClock.now()
            if left <= .zero { return nil }
            // CLOCK_MONOTONIC stands still while the machine sleeps.
            _ = isFilled.wait(for: min(left, .seconds(60)))
        }
    }
}
