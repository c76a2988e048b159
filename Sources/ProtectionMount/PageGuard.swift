import DataProtection
import Dispatch
import DurableFiles
import FuseSession
import Glibc
import Keybags
import MountRules
import POSIXThreads
import ProtectionKeys
import Synchronization
import SystemPackage

/// Keeps the promise of a lock for what the kernel has cached: when `lock` is acknowledged no page of a `complete` file is left.
///
/// It does what ``LockSequence`` decides. The keybag's ``Client`` calls it at each lock before it acknowledges, as it calls handles that have
/// written something.
final class PageGuard: FinishesAtLock {
    /// The class that the open handles of each of these nodes have, if all of them can be read and none is `complete`.
    typealias Review = @Sendable ([FuseNode]) -> [FuseNode: ProtectionClass]

    private struct State {
        var sequence = LockSequence()
        /// Whether a thread follows a lock that the client did not tell of.
        var isFollowing = false
        /// What the lock that is under way has to drop, once that is known.
        var leaving: LockSequence.Leaving?
        /// Nil before the mount and after it.
        weak var session: FuseSession?
        var review: Review = { _ in [:] }
        /// Called when the pages of a lock have gone.
        var isOver: @Sendable () -> Void = {}
        /// Keeps the calls for each lock and unlock coming.
        var following: LockListener.Observation?
    }
    private let state = Mutex(State())
    /// One lock after the other. No thread that answers requests ever waits for it.
    private let turn = Mutex(())
    private let isDrained = DispatchSemaphore(value: 0)
    private let keybag: Keybag
    /// Drops the pages of closed files, and follows locks that the client did not tell of: on no thread that answers requests, because that would
    /// wait for itself. It is made ahead, as a lock must not fail because the user may have no more threads.
    private let thread: StandingThread
    /// Keeps the thread by which the client hears of locks, and has it made ahead.
    private let observation: LockListener.Observation
    /// For the process that has to drop pages when this one is dead. Used under the lock of the state.
    let record: ConnectionRecord?

    /// How many servers the connection has had before this one.
    let serversBefore: UInt64

    /// - Throws: why there is no thread for it.
    init(_ keybag: Keybag, _ record: ConnectionRecord?) throws(Errno) {
        self.keybag = keybag
        self.record = record
        serversBefore = record?.serverCount ?? 0
        record?.begins(at: Clock.monotonic())
        do throws(POSIXThread.Refusal) { thread = try StandingThread() } catch { throw Errno(rawValue: error.code) }
        do throws(DataProtectionError) {
            observation = try LockListener.shared.observe(keybag.directory, of: keybag.uuid) { _ in nil }
        } catch { throw error.errno }
    }

    /// Begins.
    ///
    /// - Parameters:
    ///   - isOver: called in the course of a lock when the kernel has no pages any more that could be written.
    ///   - change: called some time after each lock and unlock.
    func guardPages(
        of session: FuseSession, review: @escaping Review, isOver: @escaping @Sendable () -> Void = {},
        change: @escaping @Sendable () -> Void = {}
    ) {
        // Not on the thread that drops pages: a commit waits as long as somebody holds the lock of its file.
        let changes = (try? StandingThread()) ?? thread
        let following = try? LockListener.shared.observe(keybag.directory, of: keybag.uuid) { [changes] _ in
            changes.add { change() }
            return nil
        }
        state.withLock { state in
            state.session = session
            state.review = review
            state.isOver = isOver
            state.following = following
        }
        keybag.client.noteWriting(self)
        // A process hears of locks once it has used a key of class A or B, and a file can become `complete` after it was read.
        _ = keybag.client.begin()
    }

    // MARK: reads and handles

    /// Runs a read of a protected file, and its reply.
    ///
    /// - Throws: ENOKEY while a lock is under way.
    func admit(
        _ node: FuseNode, of protectionClass: ProtectionClass, _ read: () throws(Errno) -> Void
    ) throws(Errno) {
        // Before the keyring is read: the next lock waits for it.
        guard let admitted = state.withLock({ $0.sequence.begins(node, of: protectionClass) }) else { throw .noKey }
        do throws(Errno) { try read() } catch {
            end(admitted, hasPages: false)
            throw error
        }
        end(admitted, hasPages: true)
    }

    private func end(_ read: LockSequence.Read, hasPages: Bool) {
        let isLast = state.withLock { state in
            guard case .drop(let leaving) = state.sequence.ended(read, hasPages: hasPages) else { return false }
            state.leaving = leaving
            return true
        }
        if isLast { isDrained.signal() }
    }

    func opens(_ node: FuseNode) {
        state.withLock { state in
            record?.mark(node, .pages)
            state.sequence.opens(node)
        }
    }

    func closes(_ node: FuseNode) {
        guard state.withLock({ $0.sequence.closes(node) }) else { return }
        thread.add { [self] in
            drop(node)
            state.withLock { $0.sequence.droppedClosed(node) }
        }
    }

    func forget(_ nodes: [FuseNode]) {
        if nodes.isEmpty { return }
        state.withLock { state in
            for node in nodes {
                state.sequence.forget(node)
                record?.forget(node)
            }
        }
    }

    // MARK: locks

    /// Returns when the pages have gone. Called on a thread of its own.
    package func finishAtLock() { turn.withLock { _ in follow() } }

    /// Runs a read, a write or an open. If it finds no key there was a lock, even if the client has not heard of it.
    func noticing<R>(_ body: () throws(Errno) -> R) throws(Errno) -> R {
        do throws(Errno) { return try body() } catch {
            if error == .noKey { foundNoKey() }
            throw error
        }
    }

    private func foundNoKey() {
        let isNew = state.withLock { state in
            guard state.sequence.hasCompletePages, !state.isFollowing else { return false }
            state.isFollowing = true
            return true
        }
        guard isNew else { return }
        thread.add { [self] in
            turn.withLock { _ in follow() }
            state.withLock { $0.isFollowing = false }
        }
    }

    private func follow() {
        // What begins from now on is for the next lock. Until this one is over, the client acknowledges none.
        keybag.client.noteWriting(self)
        let begun = state.withLock { $0.sequence.lock() }
        let leaving: LockSequence.Leaving
        if case .drop(let known) = begun {
            leaving = known
        } else {
            isDrained.wait()
            leaving = state.withLock { state in
                defer { state.leaving = nil }
                return state.leaving ?? LockSequence.Leaving([])
            }
        }
        let (review, isOver) = state.withLock { ($0.review, $0.isOver) }
        let staying = review(leaving.unlessReadable)
        drop(leaving.nodes + leaving.unlessReadable.filter { staying[$0] == nil })
        isOver()
        state.withLock { $0.sequence.dropped(staying: staying) }
    }

    /// Returns when the pages have gone, or the mount has.
    private func drop(_ nodes: [FuseNode]) {
        let (first, second) = (nodes.prefix(nodes.count / 2), nodes.dropFirst(nodes.count / 2))
        let dropSecond = { [self] in for node in second { drop(node) } }
        if first.isEmpty { return dropSecond() }
        // More threads are no faster: the kernel takes a lock of the connection.
        BackgroundWork.perform({ [self] in for node in first { drop(node) } }, and: dropSecond)
    }

    private func drop(_ node: FuseNode) {
        while let session = state.withLock({ $0.session }) {
            do throws(Errno) { return try session.dropPages(of: node) } catch {
                // Unmounted: the pages went with it.
                if [ENODEV, ENOTCONN, EBADF].contains(error.rawValue) { return }
                usleep(100_000)  // out of memory, perhaps. Nothing is acknowledged as long as a page is left.
            }
        }
    }
}
