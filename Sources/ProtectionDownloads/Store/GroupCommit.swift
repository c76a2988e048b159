import Dispatch
import GRDB
import Glibc
import POSIXThreads
import Synchronization

/// Changes of the list that several downloads make at the same moment: one transaction and one flush for all of them.
///
/// The first caller commits. Callers that come meanwhile wait, and the first of them commits for all. Each call returns when its own change is on the
/// disk, and has its own error. A change that nobody waits for is made with the next change, or a moment later.
final class GroupCommit: Sendable {
    /// A change that somebody waits for.
    private final class Change: @unchecked Sendable {  // handed over under `state`, and back by `done`
        /// Cleared once called: it must not outlive the call that waits.
        private var body: ((Database) throws -> Void)?
        let isLasting: Bool
        /// Nil: nobody waits for it.
        let done: DispatchSemaphore?
        var result: Result<Void, any Error>?

        init(_ isLasting: Bool, isAwaited: Bool = true, _ body: @escaping (Database) throws -> Void) {
            (self.isLasting, self.body) = (isLasting, body)
            done = isAwaited ? DispatchSemaphore(value: 0) : nil
        }

        func make(_ database: Database) throws { try body?(database) }

        func end(_ failure: (any Error)? = nil) {
            body = nil
            result = failure.map { .failure($0) } ?? result ?? .success(())
        }
    }

    private struct State {
        var waiting: [Change] = []
        var isCommitting = false
        var isAlarmSet = false
        /// There is no thread for an alarm: the thread that commits does the work that nobody waits for.
        var isOverdue = false
    }
    /// Runs a body on a thread of its own.
    typealias StartThread = @Sendable (@escaping @Sendable () -> Void) throws(POSIXThread.Refusal) -> Void

    private let state = Mutex(State())
    private let database: DatabaseQueue
    private let check: @Sendable (Database) throws -> Void
    private let startThread: StartThread

    /// - Parameters:
    ///   - check: called first in each transaction; what it throws ends that.
    ///   - startThread: for the moment after which ``soon(_:)`` has made its change.
    init(
        _ database: DatabaseQueue, checking check: @escaping @Sendable (Database) throws -> Void = { _ in },
        startThread: @escaping StartThread = { body throws(POSIXThread.Refusal) in
            try POSIXThread.detach(blocksSignals: true, body)
        }
    ) {
        (self.database, self.check, self.startThread) = (database, check, startThread)
    }

    /// How many changes wait for the next commit.
    var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// Makes a change. When this returns it is committed; when it throws nothing has changed.
    ///
    /// - Parameter isLasting: false: a power cut may take it back, unless somebody flushes at the same moment or later. A kill takes
    ///   nothing back.
    func callAsFunction<R>(isLasting: Bool, _ body: (Database) throws -> R) throws -> R {
        var value: R?
        try withoutActuallyEscaping(body) { body in
            let change = Change(isLasting) { value = try body($0) }
            try wait(for: change)
        }
        guard let value else { throw NotMade() }
        return value
    }

    /// A change was neither made nor refused.
    private struct NotMade: Error {}

    /// Makes a change with the next one that somebody waits for, or after a moment; before any that is asked for later. Where the
    /// system makes no thread that waits for the moment: at once, or behind the commit under way. Errors are nobody's: it is for
    /// what only people want to know.
    func soon(_ body: @escaping @Sendable (Database) throws -> Void) {
        let isFirst = state.withLock { state in
            state.waiting.append(Change(false, isAwaited: false, body))
            defer { state.isAlarmSet = true }
            return !state.isAlarmSet
        }
        guard isFirst else { return }
        do throws(POSIXThread.Refusal) {
            try startThread { [weak self] in
                usleep(Self.moment)
                self?.makeWaiting()
            }
        } catch {
            // The commit under way may be this caller's own: it must not wait for it.
            let isLeft = state.withLock { state in
                (state.isAlarmSet, state.isOverdue) = (false, state.isCommitting)
                return state.isCommitting
            }
            if !isLeft { makeWaiting() }
        }
    }

    /// Makes what waits, and what nobody waits for.
    func makeWaiting() {
        let isNeeded = state.withLock { state in
            state.isAlarmSet = false
            return !state.waiting.isEmpty
        }
        if isNeeded { try? self(isLasting: false) { _ in } }
    }

    /// In microseconds.
    private static let moment: UInt32 = 50_000

    private func wait(for change: Change) throws {
        let begins = state.withLock { state in
            state.waiting.append(change)
            defer { state.isCommitting = true }
            return !state.isCommitting
        }
        if !begins { change.done?.wait() }
        // Woken with it done, or because it is the first of those who wait.
        if change.result == nil { repeat { commitWaiting() } while hasOverdue() }
        guard let result = change.result else { throw NotMade() }
        try result.get()
    }

    /// Whether the caller has to commit once more.
    private func hasOverdue() -> Bool {
        state.withLock { state in
            let isOverdue = state.isOverdue && !state.isCommitting && !state.waiting.isEmpty
            if isOverdue { state.isCommitting = true }
            return isOverdue
        }
    }

    private func commitWaiting() {
        let changes = state.withLock { state in
            defer { (state.waiting, state.isOverdue) = ([], false) }
            return state.waiting
        }
        var failure: (any Error)?
        do { try commit(changes) } catch { failure = error }
        for change in changes { change.end(failure) }
        let next = state.withLock { state in
            let next = state.waiting.first { $0.done != nil }
            state.isCommitting = next != nil
            return next
        }
        for change in changes { change.done?.signal() }
        next?.done?.signal()
    }

    private func commit(_ changes: [Change]) throws {
        let isLasting = changes.contains(where: \.isLasting)
        try database.writeWithoutTransaction { database in
            // Not possible within a transaction. In WAL mode, NORMAL flushes only when the log is emptied.
            if !isLasting { try database.execute(sql: "PRAGMA synchronous = NORMAL") }
            let result = Result {
                try database.inTransaction(.immediate) {
                    try check(database)
                    for change in changes { try make(change, isAlone: changes.count == 1, database) }
                    return .commit
                }
            }
            if !isLasting { try database.execute(sql: "PRAGMA synchronous = FULL") }
            try result.get()
        }
    }

    /// - Throws: what ends the whole transaction.
    private func make(_ change: Change, isAlone: Bool, _ database: Database) throws {
        if isAlone { return try change.make(database) }
        change.result = Result {
            try database.inSavepoint {
                try change.make(database)
                return .commit
            }
        }
        // After some errors, as that of a full disk, SQLite has taken everything back.
        if case .failure(let error) = change.result, !database.isInsideTransaction { throw error }
    }
}
