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
    enum Opened: Sendable {
        /// Not a protected file: its bytes are read and written as they are.
        case plaintext(LowerFile, FuseNode)
        case reading(ProtectedFile, FuseNode)
        case writing(WrittenFile)

        var node: FuseNode {
            switch self {
            case .plaintext(_, let node), .reading(_, let node): node
            case .writing(let written): written.node
            }
        }

        /// The file of the operating system.
        var lower: LowerFile {
            switch self {
            case .plaintext(let file, _): file
            case .reading(let file, _): file.lower
            case .writing(let written): written.lower
            }
        }
    }

    let keybag: Keybag
    let pages: PageGuard
    let handles: HandleTable<Opened>
    /// The handles of each file that is open.
    private let ofNodes = Mutex<[FuseNode: Set<UInt64>]>([:])
    let writers: Writers
    /// Handles of another server are opened again one after the other.
    let reopening = Mutex(())
    /// What a dead server has left.
    let left: LeftWrites?

    /// - Throws: why there is no thread for it.
    init(_ keybag: Keybag, _ pages: PageGuard) throws(Errno) {
        (self.keybag, self.pages) = (keybag, pages)
        handles = HandleTable(after: pages.serversBefore)
        let writes = pages.record.map { RecordedWrites($0) }
        left = writes.map { LeftWrites($0, keybag) }
        writers = try Writers(keybag, writes)
    }

    // MARK: opening

    /// Opens a file as its class and the lock state allow.
    ///
    /// - Parameters:
    ///   - file: open for reading, or for both if the flags want to write.
    ///   - flags: of open(2).
    /// - Throws: ENOKEY if it is locked, or belongs to another keybag; EIO if it is damaged.
    func open(_ file: LowerFile, as node: FuseNode, flags: Int32 = O_RDONLY) throws(Errno) -> FuseHandle {
        let opened = try opened(file, as: node, flags)
        return FuseHandle(add(opened), isWriting: flags.wantsWriting)
    }

    /// Descriptors from this number on are for what a lock needs, whatever programs have open.
    static let reserved: Int32 = {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return .max }
        return Int32(clamping: limit.rlim_cur - min(64, limit.rlim_cur / 4))
    }()

    func opened(_ file: LowerFile, as node: FuseNode, _ flags: Int32) throws(Errno) -> Opened {
        try pages.noticing { () throws(Errno) in try openedNow(file, as: node, flags) }
    }

    private func openedNow(_ file: LowerFile, as node: FuseNode, _ flags: Int32) throws(Errno) -> Opened {
        // The lowest free one is taken: open(2).
        guard file.descriptor < Self.reserved else { throw .tooManyOpenFiles }
        guard try refusing({ () throws(DataProtectionError) in try isProtected(file) }) else {
            if flags & O_TRUNC != 0 {
                try refusing { () throws(DataProtectionError) in try file.truncate(to: 0) }
            }
            return .plaintext(file, node)
        }
        guard flags.wantsWriting else {
            let opened = try refusing { () throws(DataProtectionError) in
                try ProtectedFile.reading(file, keybag: keybag)
            }
            return .reading(opened, node)
        }
        let written = try writer(of: file, node)
        if flags & O_TRUNC != 0 {
            do throws(Errno) { try written.truncate(to: 0) } catch {
                try? writers.leave(written)
                throw error
            }
        }
        return .writing(written)
    }

    /// - Throws: `mangled` for what was a protected file.
    private func isProtected(_ file: LowerFile) throws(DataProtectionError) -> Bool {
        if try file.isOneOfOurs() { return true }
        try file.requireUnmangled()
        return false
    }

    private func writer(of file: LowerFile, _ node: FuseNode) throws(Errno) -> WrittenFile {
        // Each open asks for the key, whatever other handles hold.
        try writers.enter(node) { isKnown throws(DataProtectionError) in
            // Asking is all that a reader of it does.
            if isKnown { _ = try ProtectedFile.reading(file, keybag: keybag) }
            return isKnown ? nil : try ProtectedFile.writing(file, keybag: keybag)
        }
    }

    /// Goes on with a file that was just made.
    func opened(_ file: ProtectedFile, as node: FuseNode) throws(Errno) -> FuseHandle {
        let written = try writers.enter(node) { _ throws(DataProtectionError) in file }
        return FuseHandle(add(.writing(written)), isWriting: true)
    }

    /// - Parameter known: the handle, if another server gave it out.
    @discardableResult
    func add(_ opened: Opened, as known: UInt64? = nil) -> UInt64 {
        let node = opened.node
        if case .plaintext = opened {} else { pages.opens(node) }
        let handle = known ?? handles.add(opened)
        if let known { handles.put(opened, at: known) }
        ofNodes.withLock { _ = $0[node, default: []].insert(handle) }
        return handle
    }

    func release(_ handle: UInt64, of node: FuseNode) {
        guard let opened = handles.remove(handle) else { return }
        ofNodes.withLock { nodes in
            nodes[node]?.remove(handle)
            if nodes[node]?.isEmpty == true { nodes[node] = nil }
        }
        switch opened {
        case .plaintext: return
        case .reading(let file, _): try? file.close()  // it was only read
        case .writing(let written): try? writers.leave(written)  // close(2) has committed, and said what failed
        }
        pages.closes(node)
    }

    func isOpen(_ node: FuseNode) -> Bool { ofNodes.withLock { $0[node] != nil } }

    /// An open file of this node, which may have no name any more; nil if nobody has it open.
    func lower(of node: FuseNode) throws(Errno) -> LowerFile? {
        // Under the lock: a handle is closed after it was taken out here, and its descriptor may be another file's then.
        try ofNodes.withLock { nodes throws(Errno) in
            for handle in nodes[node] ?? [] {
                guard let lower = handles[handle]?.lower else { continue }
                return try refusing { () throws(DataProtectionError) in
                    LowerFile(path: lower.path, descriptor: try lower.duplicate())
                }
            }
            return nil
        }
    }

    // MARK: reading and writing

    /// The longest read that a buffer is made for, in bytes. The kernel asks for less.
    private static let longest = 1 << 20

    func read(
        _ handle: UInt64, of node: FuseNode, from offset: UInt64, count: Int, reply: (UnsafeRawBufferPointer) -> Void
    ) throws(Errno) {
        guard let opened = handles[handle] else { throw .badFileDescriptor }
        let buffer = WipedBuffer(count: min(count, Self.longest))
        switch opened {
        case .plaintext(let file, _):
            let read = try refusing { () throws(DataProtectionError) in
                try file.read(into: buffer.prefix(buffer.count), at: offset)
            }
            reply(UnsafeRawBufferPointer(buffer.prefix(read)))
        case .writing(let written): try read(written, node, from: offset, buffer, reply)
        case .reading(let own, _):
            // What is written and not committed is seen by everybody.
            guard let written = writers[node] else { return try read(own, node, from: offset, buffer, reply) }
            do throws(Errno) { try read(written, node, from: offset, buffer, reply) } catch {
                // It was closed meanwhile, and has committed.
                guard error == .badFileDescriptor else { throw error }
                try read(own, node, from: offset, buffer, reply)
            }
        }
    }

    private func read(
        _ written: WrittenFile, _ node: FuseNode, from offset: UInt64, _ buffer: WipedBuffer,
        _ reply: (UnsafeRawBufferPointer) -> Void
    ) throws(Errno) {
        try read(written.file, node, from: offset, buffer, reply) { () throws(Errno) in try written.mergeLatePages() }
    }

    private func read(
        _ file: ProtectedFile, _ node: FuseNode, from offset: UInt64, _ buffer: WipedBuffer,
        _ reply: (UnsafeRawBufferPointer) -> Void, after begin: () throws(Errno) -> Void = { () throws(Errno) in }
    ) throws(Errno) {
        try pages.noticing { () throws(Errno) in
            // Asked each time: somebody may have changed the class.
            let now = try refusing { () throws(DataProtectionError) in try file.openedClass() }
            try pages.admit(node, of: now) { () throws(Errno) in
                try begin()
                let read = try refusing { () throws(DataProtectionError) in
                    try file.read(into: buffer.prefix(buffer.count), at: Int64(clamping: offset))
                }
                // Within the admission: a lock waits until the kernel has the bytes, and then drops them.
                reply(UnsafeRawBufferPointer(buffer.prefix(read)))
            }
        }
    }

    func write(
        _ handle: UInt64, flags: Int32, at offset: UInt64, _ bytes: UnsafeRawBufferPointer, _ way: FuseWrite
    ) throws(Errno) {
        switch handles[handle] {
        case .plaintext(let file, _):
            try refusing { () throws(DataProtectionError) in
                if way == .atEnd { try file.appending().write(bytes, at: 0) } else { try file.write(bytes, at: offset) }
            }
        case .writing(let written):
            do throws(Errno) {
                try pages.noticing { () throws(Errno) in
                    try written.write(bytes, at: offset, appends: way == .atEnd)
                }
            } catch {
                guard way == .page, error == .noKey else { throw error }
                try written.keep(page: bytes, at: offset)
            }
            if flags & O_DSYNC != 0 { try written.commit() }  // O_SYNC has that bit, too
        case .reading, nil: throw .badFileDescriptor
        }
    }

    /// Makes a file `size` bytes long, and that last.
    ///
    /// - Parameters:
    ///   - handle: of an open file. Without one the key is asked for.
    ///   - open: opens the file for reading and writing.
    func truncate(
        _ node: FuseNode, to size: UInt64, handle: UInt64?, _ open: () throws(Errno) -> LowerFile
    ) throws(Errno) {
        if let handle {
            switch handles[handle] {
            case .plaintext(let file, _):
                return try refusing { () throws(DataProtectionError) in try file.truncate(to: size) }
            case .writing(let written):
                try written.truncate(to: size)
                return try written.commit()
            case .reading, nil: throw .badFileDescriptor
            }
        }
        let file = try open()
        guard try refusing({ () throws(DataProtectionError) in try isProtected(file) }) else {
            return try refusing { () throws(DataProtectionError) in try file.truncate(to: size) }
        }
        let written = try writer(of: file, node)
        defer { try? writers.leave(written) }  // it has committed
        try written.truncate(to: size)
        try written.commit()
    }

    /// close(2) of a descriptor.
    func flush(_ handle: UInt64, of node: FuseNode) throws(Errno) {
        if isOfAnotherServer(handle) { return try left?.requireNothingLost(node) ?? () }
        if case .writing(let written)? = handles[handle] { try written.commit() }
    }

    /// fsync(2), of a descriptor that was opened for reading too.
    ///
    /// - Parameter open: opens the file for reading.
    func synchronize(
        _ handle: UInt64, of node: FuseNode, _ open: () throws(Errno) -> LowerFile
    ) throws(Errno) {
        if isOfAnotherServer(handle) { try left?.requireNothingLost(node) }
        if let written = writers[node] { return try written.commit(always: true) }
        let lower: LowerFile
        if let opened = handles[handle] { lower = opened.lower } else { lower = try open() }
        try refusing { () throws(DataProtectionError) in try lower.flushAll() }
    }
}

extension Int32 {
    /// Whether flags of open(2) want to change the file.
    var wantsWriting: Bool { self & O_ACCMODE != O_RDONLY || self & O_TRUNC != 0 }
}
