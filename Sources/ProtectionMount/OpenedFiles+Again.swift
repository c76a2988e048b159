import DataProtection
import DurableFiles
import FuseSession
import Glibc
import SystemPackage

/// Handles that another server gave out, which is dead: the kernel goes on to use them.
extension OpenedFiles {
    /// Opens the file of such a handle again, at its first use. Its class and the lock state decide anew.
    ///
    /// - Parameters:
    ///   - flags: of open(2), as the kernel has them.
    ///   - open: opens the file below.
    /// - Throws: EIO if the dead server has lost a write to it: the program that wrote must learn of it.
    func openAgain(
        _ handle: UInt64, as node: FuseNode, flags: Int32, _ open: (Int32) throws(Errno) -> LowerFile
    ) throws(Errno) {
        guard isOfAnotherServer(handle) else { return }
        try reopening.withLock { _ throws(Errno) in
            if handles[handle] != nil { return }
            if flags.wantsWriting { try left?.requireNothingLost(node) }
            add(try opened(try open(flags), as: node, flags), as: handle)
        }
    }

    /// Whether a handle is not known here, and was not closed either.
    func isOfAnotherServer(_ handle: UInt64) -> Bool { handles.isOfAnotherServer(handle) && handles[handle] == nil }
}

extension MountedTree {
    /// Before a handle is used: another server may have given it out.
    func openAgain(_ handle: UInt64, of node: FuseNode, flags: Int32) throws(Errno) {
        guard files.isOfAnotherServer(handle) else { return }
        try commitLeft(node)
        try files.openAgain(handle, as: node, flags: flags) { flags throws(Errno) in
            flags.wantsWriting ? try writable(node, flags) : try file(node, openedFor: flags)
        }
    }

    /// Before anything is done with a file's contents: a dead server may have left writes.
    ///
    /// - Throws: as ``LeftWrites/commit(_:_:)``.
    func commitLeft(_ node: FuseNode) throws(Errno) {
        try files.left?.commit(node) { () throws(Errno) in try writable(node, O_RDWR) }
    }

    /// The same for all files, where that is possible now. A dead server can hold its locks on files for a moment.
    func commitLeft() {
        for _ in 0..<50 {
            let waiting = files.left?.waiting ?? []
            if waiting.isEmpty { return }
            var isBusy = false
            for node in waiting {
                do throws(Errno) { try commitLeft(node) } catch { if error == .resourceBusy { isBusy = true } }
            }
            if !isBusy { return }
            usleep(100_000)
        }
    }

    /// A file that was open for writing. Programs can have taken the permission away since, or never have had it: open(2) with O_CREAT.
    private func writable(_ node: FuseNode, _ flags: Int32) throws(Errno) -> LowerFile {
        do throws(Errno) { return try file(node, openedFor: flags) } catch {
            guard error == .permissionDenied else { throw error }
            let item = try tree.item(node)
            return try refusing { () throws(DataProtectionError) in
                try item.forHeads { () throws(DataProtectionError) in throw .system(item.path, operation: "open", error)
                }
            }
        }
    }
}
