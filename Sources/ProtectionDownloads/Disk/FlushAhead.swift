import DataProtection
import POSIXThreads
import Synchronization

/// Brings bytes to the disk while further ones come: otherwise network and disk would wait for one another.
///
/// It makes nothing last by itself; what counts is the commit that follows, which has little left to do then.
final class FlushAhead: Sendable {
    private struct State {
        var isRunning = false
        var failure: DataProtectionError?
    }
    private let state = Mutex(State())
    private let work = BackgroundWork()

    var isRunning: Bool { state.withLock { $0.isRunning } }

    /// Begins, unless it is at it.
    ///
    /// - Returns: whether it has begun.
    func begin(_ file: ProtectedFile) -> Bool {
        let begins = state.withLock { state in
            defer { state.isRunning = true }
            return !state.isRunning
        }
        guard begins else { return false }
        work.add { [self] in
            var failure: DataProtectionError?
            do throws(DataProtectionError) { try file.flushAhead() } catch { failure = error }
            state.withLock { $0 = State(isRunning: false, failure: $0.failure ?? failure) }
        }
        return true
    }

    /// Waits for its end.
    ///
    /// - Throws: why bytes could not be written: the kernel has told nobody else.
    func finish() throws(DataProtectionError) {
        work.finish()
        if let failure = state.withLock({ $0.failure }) { throw failure }
    }
}
