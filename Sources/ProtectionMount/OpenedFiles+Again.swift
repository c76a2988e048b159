import DurableFiles
import FuseSession
import Glibc
import SystemPackage

/// Handles that another server gave out, which is dead: the kernel goes on to use them.
extension OpenedFiles {
    /// - Parameter record: what it says of uncommitted writes is no more in anybody's memory.
    static func lostFiles(_ record: ConnectionRecord?) -> Set<FuseNode> {
        guard let record else { return [] }
        record.forEachNode(.uncommitted) { node in
            record.mark(node, .lost)
            record.unmark(node, .uncommitted)
        }
        var lost: Set<FuseNode> = []
        record.forEachNode(.lost) { lost.insert($0) }
        return lost
    }

    /// Opens the file of such a handle, at its first use. Its class and the lock state decide anew.
    ///
    /// - Parameters:
    ///   - flags: of open(2), as the kernel has them.
    ///   - open: opens the file below.
    /// - Throws: EIO if the dead server has lost a write to it: whoever wrote must not go on as if nothing had happened.
    func openAgain(
        _ handle: UInt64, as node: FuseNode, flags: Int32, _ open: (Int32) throws(Errno) -> LowerFile
    ) throws(Errno) {
        guard isOfAnotherServer(handle) else { return }
        try reopening.withLock { _ throws(Errno) in
            if handles[handle] != nil { return }
            if flags.wantsWriting { try requireNothingLost(node) }
            add(try opened(try open(flags), as: node, flags), as: handle)
        }
    }

    /// Whether a handle is not known here, and was not closed either.
    func isOfAnotherServer(_ handle: UInt64) -> Bool { handles.isOfAnotherServer(handle) && handles[handle] == nil }

    /// - Throws: EIO.
    func requireNothingLost(_ node: FuseNode) throws(Errno) { if lost.contains(node) { throw .ioError } }
}
