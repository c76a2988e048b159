import DataProtection
import Dispatch
import FuseSession
import Glibc
import Keybags
import MountRules
import ProtectionKeys
import Synchronization
import SystemPackage

/// Keeps the promise of a lock for what the kernel has cached: when `lock` is acknowledged no page of a `complete` file is left.
///
/// It does what ``LockSequence`` decides. From the first read of a `complete` file to the end of the next lock's sequence it holds a
/// ``KeyUse``, so that this process answers a lock only when the pages have gone.
final class PageGuard: Sendable {
    private struct State {
        var sequence = LockSequence()
        /// While any page may be cached that a lock takes away.
        var use: KeyUse?
        /// The counter of the last lock that was heard.
        var counter: UInt64
        /// Nil before the mount and after it.
        weak var session: FuseSession?
    }
    private let state: Mutex<State>
    private let keybag: Keybag
    /// Pages are dropped on no thread that answers requests: that would wait for itself.
    private let queue = DispatchQueue(label: "protectfs.mount.pages", attributes: .concurrent)

    init(_ keybag: Keybag) {
        self.keybag = keybag
        state = Mutex(State(counter: keybag.transition.read().counter))
    }

    /// Follows the locks of the keybag until the result goes.
    func follow(_ session: FuseSession) throws(DataProtectionError) -> LockListener.Observation {
        state.withLock { $0.session = session }
        return try keybag.listen { [weak self] events in
            self?.look(isLocked: events.contains { if case .didBecomeUnavailable = $0 { true } else { false } })
        }
    }

    /// Something may have happened to the keys. A lock and an unlock may both be over: the counter tells.
    private func look(isLocked: Bool) {
        let counter = keybag.transition.read().counter
        perform(
            state.withLock { state in
                defer { state.counter = counter }
                return isLocked || counter != state.counter ? state.sequence.lock() : .nothing
            })
    }

    /// A read found no key: there was a lock, heard or not.
    func foundNoKey() {
        perform(state.withLock { $0.sequence.hasPages ? $0.sequence.lock() : .nothing })
    }

    /// Runs a read of a protected file, and its reply.
    ///
    /// - Throws: ENOKEY while a lock is under way.
    func admit(
        _ node: FuseNode, of protectionClass: ProtectionClass, _ read: () throws(Errno) -> Void
    ) throws(Errno) {
        let isAdmitted = state.withLock { state in
            guard state.sequence.begins(node, of: protectionClass) else { return false }
            // Before the keyring is read: a lock after this moment waits for it.
            if protectionClass == .complete, state.use == nil { state.use = keybag.client.begin() }
            return true
        }
        guard isAdmitted else { throw .noKey }
        defer { perform(state.withLock { $0.sequence.ended(node, of: protectionClass) }) }
        try read()
    }

    func opens(_ node: FuseNode, of protectionClass: ProtectionClass) {
        state.withLock { $0.sequence.opens(node, of: protectionClass) }
    }

    func closes(_ node: FuseNode, of protectionClass: ProtectionClass) {
        guard state.withLock({ $0.sequence.closes(node, of: protectionClass) }) else { return }
        queue.async { [self] in drop([node]) }
    }

    func forget(_ nodes: [FuseNode]) {
        state.withLock { state in for node in nodes { state.sequence.forget(node) } }
    }

    private func perform(_ action: LockSequence.Action) {
        switch action {
        case .nothing: break
        case .drop(let nodes):
            queue.async { [self] in
                drop(nodes)
                perform(state.withLock { $0.sequence.dropped() })
            }
        case .acknowledge:
            // Ends outside of the lock: the answer is written to a file then.
            let use = state.withLock { state in
                defer { if !state.sequence.hasPages { state.use = nil } }
                return state.sequence.hasPages ? nil : state.use
            }
            withExtendedLifetime(use) {}
        }
    }

    /// Returns when the pages have gone, or the mount has.
    private func drop(_ nodes: [FuseNode]) {
        // More threads are no faster: the kernel takes a lock of the connection.
        let halves = [nodes.prefix(nodes.count / 2), nodes.dropFirst(nodes.count / 2)]
        DispatchQueue.concurrentPerform(iterations: halves.count) { half in
            for node in halves[half] { drop(node) }
        }
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

extension Errno {
    /// ENOKEY: "Required key not available".
    static var noKey: Errno { Errno(rawValue: ENOKEY) }
}
