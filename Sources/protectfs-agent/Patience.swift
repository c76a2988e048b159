import POSIXThreads
import Synchronization

/// Asks keybags whose disks may hang: on threads that nobody needs, and not for ever.
final class Patience: Sendable {
    /// Of whom an answer is still awaited.
    private let awaited = Mutex<Set<String>>([])

    private final class Answer<Value: Sendable>: Sendable {
        let value = Mutex<Value?>(nil)
        let isThere = TimedSemaphore()
    }

    /// Runs `body` on a thread of its own.
    ///
    /// - Parameters:
    ///   - name: who is asked. While an earlier answer is awaited still, it is not asked again.
    ///   - seconds: how long the answer is waited for.
    /// - Returns: nil if there was none. Then `body` goes on.
    func ask<Value: Sendable>(
        _ name: String, seconds: Double = 1, _ body: @escaping @Sendable () -> Value
    ) -> Value? {
        guard awaited.withLock({ $0.insert(name).inserted }) else { return nil }
        let answer = Answer<Value>()
        do throws(POSIXThread.Refusal) {
            try POSIXThread.detach(blocksSignals: true) { [self] in
                let value = body()
                answer.value.withLock { $0 = value }
                awaited.withLock { _ = $0.remove(name) }
                answer.isThere.signal()
            }
        } catch {
            // Where the user may have no more threads, this one does it: a disk that hangs is rarer than that.
            awaited.withLock { _ = $0.remove(name) }
            return body()
        }
        guard answer.isThere.wait(for: .seconds(seconds)) else { return nil }
        return answer.value.withLock { $0 }
    }
}
