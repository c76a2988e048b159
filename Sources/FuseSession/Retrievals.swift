import Dispatch
import Synchronization

/// Questions after cached pages that the kernel has not answered yet.
final class Retrievals: Sendable {
    /// One question.
    final class Retrieval: Sendable {
        private let count = Mutex<Int?>(nil)
        private let isAnswered = DispatchSemaphore(value: 0)

        fileprivate func answer(_ bytes: Int?) {
            count.withLock { $0 = bytes }
            isAnswered.signal()
        }

        /// Waits for the answer.
        ///
        /// - Returns: in bytes; nil if there was none.
        func wait() -> Int? {
            isAnswered.wait()
            return count.withLock { $0 }
        }
    }

    private struct State {
        var last: UInt = 0
        var waiting: [UInt: Retrieval] = [:]
        var isOver = false
    }
    private let state = Mutex(State())

    /// - Returns: the number by which the kernel's answer is told from others.
    func begin() -> (UInt, Retrieval) {
        let retrieval = Retrieval()
        return state.withLock { state in
            state.last += 1
            if state.isOver { retrieval.answer(nil) } else { state.waiting[state.last] = retrieval }
            return (state.last, retrieval)
        }
    }

    func end(_ number: UInt, count: Int?) {
        state.withLock { $0.waiting.removeValue(forKey: number) }?.answer(count)
    }

    /// Nobody answers any more.
    func giveUp() {
        let left = state.withLock { state in
            state.isOver = true
            defer { state.waiting = [:] }
            return state.waiting.values
        }
        for retrieval in left { retrieval.answer(nil) }
    }
}
