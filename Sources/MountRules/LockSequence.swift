import ProtectionKeys

/// Which reads a mount admits and which cached pages have to go, in the course of locks. No clock and no I/O: feed it events, do what it returns.
///
/// The kernel keeps the pages of what was read. When a lock is acknowledged, none may be left of a `complete` file:
///
/// 1. ``lock()``: from now on no read of a `complete` file is admitted. Reads that began before are waited for, whatever their class, which
///    may have been raised meanwhile.
/// 2. The last of them has ended: ``Action/drop(_:)``. Dropping waits for the kernel's own readers, which is why reads are refused meanwhile
///    and not held up.
/// 3. ``dropped(staying:)``: reads are admitted again. They find no key while the keybag is locked.
///
/// The pages of a file that nobody has open go in every state, because nothing uses them: each open begins with an empty cache. So those of a
/// `completeUnlessOpen` file go with its last handle.
package struct LockSequence: Sendable {
    /// What to do now.
    package enum Action: Equatable, Sendable {
        case nothing
        /// Drop these pages, then call ``dropped(staying:)``.
        case drop(Leaving)
    }

    /// Nodes whose pages go at a lock, in the order of their numbers.
    package struct Leaving: Equatable, Sendable {
        /// They go in any case: `complete` files, and files that nobody has open.
        package let nodes: [UInt64]
        /// Open files that had another class at their last read. Their pages stay if the open handles can read them now and none is
        /// `complete`.
        package let unlessReadable: [UInt64]

        package init(_ nodes: [UInt64], unlessReadable: [UInt64] = []) {
            (self.nodes, self.unlessReadable) = (nodes, unlessReadable)
        }
    }

    /// A read that was admitted.
    package struct Read: Sendable {
        fileprivate let node: UInt64
        fileprivate let protectionClass: ProtectionClass
        fileprivate let turn: UInt64
    }

    private enum Phase: Sendable { case open, draining, dropping }
    private var phase = Phase.open
    /// How many locks there were.
    private var turn: UInt64 = 0
    /// Reads under way that began after the last lock.
    private var recent = 0
    /// The same, begun before it.
    private var earlier = 0
    /// Files that may have cached pages, with the class at their last read.
    private var cached: [UInt64: ProtectionClass] = [:]
    /// Of these, files of which reads are under way that nothing was cached for before, and how many.
    private var awaited: [UInt64: Int] = [:]
    /// How often files are open.
    private var opened: [UInt64: Int] = [:]
    /// Files that were closed and whose pages are being dropped, and how often.
    private var closing: [UInt64: Int] = [:]

    package init() {}

    /// Whether pages of a `complete` file may be cached that no sequence takes away.
    package var hasCompletePages: Bool { phase == .open && cached.values.contains(.complete) }

    // MARK: reads

    /// A read of a protected file begins.
    ///
    /// - Returns: nil if it is refused. Otherwise pass it to ``ended(_:hasPages:)`` once, when the kernel has the bytes or the error.
    package mutating func begins(_ node: UInt64, of protectionClass: ProtectionClass) -> Read? {
        if protectionClass == .complete, phase != .open { return nil }
        recent += 1
        if cached[node] == nil || awaited[node] != nil { awaited[node, default: 0] += 1 }
        // Now, because the kernel may close the file before it is said that the read has ended.
        cached[node] = protectionClass
        return Read(node: node, protectionClass: protectionClass, turn: turn)
    }

    /// A read has ended.
    ///
    /// - Parameter hasPages: whether the kernel got any bytes.
    package mutating func ended(_ read: Read, hasPages: Bool) -> Action {
        if hasPages {
            // Once more, because a sequence may have passed meanwhile.
            cached[read.node] = read.protectionClass
            awaited[read.node] = nil
        } else if let others = awaited[read.node] {
            // A read that found no key leaves nothing. Else it would begin a sequence, which refuses the first reads after an unlock.
            awaited[read.node] = others > 1 ? others - 1 : nil
            if others == 1 { cached[read.node] = nil }
        }
        if read.turn == turn {
            recent -= 1
            return .nothing
        }
        earlier -= 1
        return phase == .draining && earlier == 0 ? drop() : .nothing
    }

    // MARK: locks

    /// The class keys have gone from the keyring. One sequence at a time: not called again before ``dropped(staying:)``.
    ///
    /// - Returns: `nothing` if reads are under way. The last ``ended(_:hasPages:)`` says what to drop.
    package mutating func lock() -> Action {
        guard phase == .open else { return .nothing }
        phase = .draining
        turn += 1
        (earlier, recent) = (recent, 0)
        return earlier == 0 ? drop() : .nothing
    }

    private mutating func drop() -> Action {
        phase = .dropping
        let asked = cached.filter { $0.value != .complete && opened[$0.key] != nil }
        let going = Set(cached.keys).subtracting(asked.keys).union(closing.keys)
        // What is read from now on is noted anew.
        (cached, awaited) = ([:], [:])
        return .drop(Leaving(going.sorted(), unlessReadable: asked.keys.sorted()))
    }

    /// The pages of ``Action/drop(_:)`` have gone.
    ///
    /// - Parameter staying: those of ``Leaving/unlessReadable`` whose pages were left, and the class that they have.
    package mutating func dropped(staying: [UInt64: ProtectionClass] = [:]) {
        guard phase == .dropping else { return }
        phase = .open
        cached.merge(staying) { read, _ in read }
    }

    // MARK: handles

    /// A protected file is opened.
    package mutating func opens(_ node: UInt64) { opened[node, default: 0] += 1 }

    /// A handle is closed.
    ///
    /// - Returns: whether the pages of the node have to be dropped now. Then call ``droppedClosed(_:)``.
    package mutating func closes(_ node: UInt64) -> Bool {
        guard let count = opened[node] else { return false }
        opened[node] = count > 1 ? count - 1 : nil
        awaited[node] = nil
        guard count == 1, cached.removeValue(forKey: node) != nil else { return false }
        closing[node, default: 0] += 1
        return true
    }

    /// The pages of a closed file have gone.
    package mutating func droppedClosed(_ node: UInt64) {
        guard let count = closing[node] else { return }
        closing[node] = count > 1 ? count - 1 : nil
    }

    /// The kernel has given up a node, and its pages with it.
    package mutating func forget(_ node: UInt64) { (cached[node], awaited[node]) = (nil, nil) }
}
