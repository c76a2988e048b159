import DataProtection
import Dispatch
import DurableFiles
import FuseSession
import Glibc
import Keybags
import POSIXThreads
import SystemPackage

/// What is left of a mount whose server was killed: pages in the kernel's cache, which programs with files open there can read. A process that has the
/// connection open too can make the kernel drop them.
package struct MountRemains {
    /// The connection to the kernel.
    package let connection: Int32
    /// What the server has noted of it.
    package let record: Int32
    /// The mount's note in the keybag; empty if there is none.
    package let note: FilePath

    package init(connection: Int32, record: Int32, note: FilePath) {
        (self.connection, self.record, self.note) = (connection, record, note)
    }

    /// For how long pages are waited for whose reads nobody can answer, in seconds. Then the connection is cut, and the note stays.
    private static let patience = 5.0

    /// Drops the pages, and removes the note: a lock has nothing to say of the mount then. Call it when the server is dead.
    package func clear() {
        do {
            let orphan = OrphanedConnection(
                descriptor: connection, record: try ConnectionRecord(descriptor: record))
            try orphan.refuseRequests()
            // At once. Then again when the server's lock on the note proves that none of its threads can have answered a read since.
            guard Self.drops(pagesOf: orphan), !note.isEmpty else { return }
            MountNote.removeCleared(at: note) { Self.drops(pagesOf: orphan) }
        } catch {}  // the note says that pages may be left
    }

    /// - Returns: whether none are left.
    private static func drops(pagesOf orphan: OrphanedConnection) -> Bool {
        let isDone = DispatchSemaphore(value: 0)
        do throws(POSIXThread.Refusal) {
            try POSIXThread.detach(blocksSignals: true) { if orphan.dropPages() { isDone.signal() } }
        } catch { return false }
        return isDone.wait(timeout: .now() + patience) == .success
    }
}
