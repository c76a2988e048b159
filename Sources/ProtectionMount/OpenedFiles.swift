import DataProtection
import DurableFiles
import FuseSession
import Glibc
import ProtectedFiles
import ProtectionKeys
import Synchronization
import SystemPackage

/// The files that programs have open through the mount.
final class OpenedFiles: Sendable {
    private enum Opened: Sendable {
        /// Not a protected file: its bytes are shown as they are.
        case plaintext(LowerFile)
        case protected(ProtectedFile, FuseNode)
    }

    private let keybag: Keybag
    private let pages: PageGuard
    private let handles = HandleTable<Opened>()

    init(_ keybag: Keybag, _ pages: PageGuard) { (self.keybag, self.pages) = (keybag, pages) }

    /// Opens a file as its class and the lock state allow.
    ///
    /// - Throws: ENOKEY if it is locked, or belongs to another keybag; EIO if it is damaged.
    func open(_ file: LowerFile, as node: FuseNode) throws(Errno) -> UInt64 {
        let opened = try refusing { () throws(DataProtectionError) -> Opened in
            guard try file.isOneOfOurs() else {
                try file.requireUnmangled()
                return .plaintext(file)
            }
            return .protected(try ProtectedFile.reading(file, keybag: keybag), node)
        }
        if case .protected = opened { pages.opens(node) }
        return handles.add(opened)
    }

    /// The longest read that a buffer is made for, in bytes. The kernel asks for less.
    private static let longest = 1 << 20

    func read(
        _ handle: UInt64, of node: FuseNode, from offset: UInt64, count: Int, reply: (UnsafeRawBufferPointer) -> Void
    ) throws(Errno) {
        guard let opened = handles[handle] else { throw .badFileDescriptor }
        let buffer = WipedBuffer(count: min(count, Self.longest))
        switch opened {
        case .plaintext(let file):
            let read = try refusing { () throws(DataProtectionError) in
                try file.read(into: buffer.prefix(buffer.count), at: offset)
            }
            reply(UnsafeRawBufferPointer(buffer.prefix(read)))
        case .protected(let file, _):
            do throws(Errno) {
                // Asked each time: somebody may have changed the class.
                let now = try refusing { () throws(DataProtectionError) in try file.openedClass() }
                try pages.admit(node, of: now) { () throws(Errno) in
                    let read = try refusing { () throws(DataProtectionError) in
                        try file.read(into: buffer.prefix(buffer.count), at: Int64(clamping: offset))
                    }
                    // Within the admission: a lock waits until the kernel has the bytes, and then drops them.
                    reply(UnsafeRawBufferPointer(buffer.prefix(read)))
                }
            } catch {
                if error == .noKey { pages.foundNoKey() }
                throw error
            }
        }
    }

    func release(_ handle: UInt64, of node: FuseNode) {
        guard case .protected(let file, _)? = handles.remove(handle) else { return }
        try? file.close()  // it was only read
        pages.closes(node)
    }

    /// The class of the files that have these nodes, as far as every open handle can be read now and none is `complete`.
    func readable(_ nodes: [FuseNode]) -> [FuseNode: ProtectionClass] {
        if nodes.isEmpty { return [:] }
        let asked = Set(nodes)
        var classes: [FuseNode: ProtectionClass] = [:]
        var others: Set<FuseNode> = []
        for opened in handles.values {
            guard case .protected(let file, let node) = opened, asked.contains(node) else { continue }
            if let now = try? file.openedClass(), now != .complete { classes[node] = now } else { others.insert(node) }
        }
        return classes.filter { !others.contains($0.key) }
    }
}

/// Values under numbers that are not used again.
final class HandleTable<Value: Sendable>: Sendable {
    private struct State: Sendable {
        var values: [UInt64: Value] = [:]
        var last: UInt64 = 0
    }
    private let state = Mutex(State())

    func add(_ value: Value) -> UInt64 {
        state.withLock { state in
            state.last += 1
            state.values[state.last] = value
            return state.last
        }
    }

    @discardableResult
    func remove(_ handle: UInt64) -> Value? { state.withLock { $0.values.removeValue(forKey: handle) } }

    /// Does nothing if there is none.
    func replace(_ handle: UInt64, by value: Value) {
        state.withLock { state in if state.values[handle] != nil { state.values[handle] = value } }
    }

    /// All of them, in no order.
    var values: [Value] { state.withLock { Array($0.values.values) } }

    subscript(_ handle: UInt64) -> Value? { state.withLock { $0.values[handle] } }
}
