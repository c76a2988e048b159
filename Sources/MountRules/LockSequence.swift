import ProtectionKeys

/// Which reads a mount admits and which cached pages have to go, in the course of locks. No clock and no I/O: feed it events, do what it returns.
///
/// The kernel keeps the pages of what was read. Those of `complete` files must be gone when a lock is acknowledged:
///
/// 1. ``lock()``: from now on no `complete` read is admitted. Those under way are waited for, because they have had the key.
/// 2. The last of them has ended: the pages of every `complete` file are to be dropped. Dropping waits for the kernel's own readers, which is
///    why reads are refused meanwhile and not held up.
/// 3. ``dropped()``: nothing is left, and reads are admitted again. They find no key while the keybag is locked.
///
/// A `completeUnlessOpen` file goes on while it is open. Its pages go when it is closed, in every state.
package struct LockSequence: Sendable {
    /// What to do now.
    package enum Action: Equatable, Sendable {
        case nothing
        /// Drop the cached pages of these nodes, then call ``dropped()``. In no order.
        case drop([UInt64])
        /// Say that nothing is left of the keys.
        case acknowledge
    }

    private enum Phase: Sendable { case open, draining, dropping }
    private var phase = Phase.open
    /// Reads of `complete` files that were admitted and have not ended.
    private var underWay = 0
    /// `complete` files that may have cached pages.
    private var cached: Set<UInt64> = []
    /// How often `completeUnlessOpen` files are open.
    private var opened: [UInt64: Int] = [:]

    package init() {}

    /// Whether anything may be cached that a lock takes away.
    package var hasPages: Bool { !cached.isEmpty || underWay > 0 || phase != .open }

    /// A read of a file begins.
    ///
    /// - Returns: whether it may. If so, ``ended(_:of:)`` is called once, when the kernel has the bytes or the error.
    package mutating func begins(_ node: UInt64, of protectionClass: ProtectionClass) -> Bool {
        guard protectionClass == .complete else { return true }
        guard phase == .open else { return false }
        underWay += 1
        cached.insert(node)
        return true
    }

    /// A read has ended.
    package mutating func ended(_ node: UInt64, of protectionClass: ProtectionClass) -> Action {
        guard protectionClass == .complete else { return .nothing }
        underWay -= 1
        return phase == .draining && underWay == 0 ? dropAll() : .nothing
    }

    /// The class keys have gone from the keyring.
    package mutating func lock() -> Action {
        guard phase == .open else { return .nothing }  // the sequence that is under way answers this lock too
        phase = .draining
        return underWay == 0 ? dropAll() : .nothing
    }

    private mutating func dropAll() -> Action {
        phase = .dropping
        return .drop(cached.sorted())
    }

    /// The pages of ``Action/drop(_:)`` have gone.
    package mutating func dropped() -> Action {
        guard phase == .dropping else { return .nothing }
        cached = []
        phase = .open
        return .acknowledge
    }

    /// A file is opened.
    package mutating func opens(_ node: UInt64, of protectionClass: ProtectionClass) {
        if protectionClass == .completeUnlessOpen { opened[node, default: 0] += 1 }
    }

    /// A handle is closed.
    ///
    /// - Returns: whether the pages of the node have to go now.
    package mutating func closes(_ node: UInt64, of protectionClass: ProtectionClass) -> Bool {
        guard protectionClass == .completeUnlessOpen, let count = opened[node] else { return false }
        opened[node] = count > 1 ? count - 1 : nil
        return count == 1
    }

    /// The kernel has given up a node, and its pages with it.
    package mutating func forget(_ node: UInt64) { if phase == .open, underWay == 0 { cached.remove(node) } }
}
