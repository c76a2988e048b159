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
        /// Its class when it was opened: that of its pages' end.
        case protected(ProtectedFile, ProtectionClass)
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
            let handle = try ProtectedFile.reading(file, keybag: keybag)
            return .protected(handle, try handle.openedClass())
        }
        if case .protected(_, let protectionClass) = opened { pages.opens(node, of: protectionClass) }
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
                // Asked each time: somebody may have changed the class meanwhile.
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
        guard case .protected(let file, let protectionClass)? = handles.remove(handle) else { return }
        try? file.close()  // it was only read
        pages.closes(node, of: protectionClass)
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

    subscript(_ handle: UInt64) -> Value? { state.withLock { $0.values[handle] } }
}
