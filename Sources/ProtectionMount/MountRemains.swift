import DataProtection
import DurableFiles
import FuseSession
import Glibc
import Keybags
import POSIXThreads
import ProtectionKeys
import SystemPackage

/// What is left of a mount whose server was killed: pages in the kernel's cache, which programs with files open there can read, and requests. A process
/// that has the connection open too can go on in the place of the server, or make the kernel drop the pages.
package struct MountRemains {
    /// The connection to the kernel.
    package let connection: Int32
    /// What the server has noted of it.
    package let record: Int32
    /// The directory below.
    package let directory: Int32
    /// The socket of ``DirectoryBelow``.
    package let socket: Int32
    /// The mount's note in the keybag; empty if there is none.
    package let note: FilePath

    package init(connection: Int32, record: Int32, directory: Int32, socket: Int32, note: FilePath) {
        (self.connection, self.record) = (connection, record)
        (self.directory, self.socket, self.note) = (directory, socket, note)
    }

    /// Whether another server should go on: not if that was tried and it died at once, of what programs still ask for.
    package var isWorthAnotherServer: Bool {
        guard let noted = try? ConnectionRecord(descriptor: dup(record)) else { return false }
        let age = Clock.monotonic() - min(noted.beginning, Clock.monotonic())
        return noted.hasAllNodes && (noted.serverCount == 1 || age > Self.leastLife)
    }

    /// In nanoseconds.
    private static let leastLife: UInt64 = 1_000_000_000

    /// For how long pages are waited for whose reads nobody can answer, in seconds. Then the connection is cut, and the note stays.
    private static let patience: UInt64 = 5_000_000_000

    /// Refuses all requests and drops the pages, and removes the note: a lock has nothing to say of the mount then. Call it when the server is dead.
    package func clear() {
        do {
            let orphan = try orphan()
            try orphan.refuseRequests()
            dropPages(of: orphan) { orphan.refuseUnanswered() }
        } catch {}  // the note says that pages may be left
    }

    /// The same beside a server that has taken over and answers the requests.
    func dropPages() { if let orphan = try? orphan() { dropPages(of: orphan) } }

    private func orphan() throws(Errno) -> OrphanedConnection {
        OrphanedConnection(descriptor: connection, record: try ConnectionRecord(descriptor: dup(record)))
    }

    /// - Parameter whileWaiting: called again and again as long as pages are being read.
    private func dropPages(of orphan: OrphanedConnection, whileWaiting: () -> Void = {}) {
        // At once. Then again when the server's lock on the note proves that none of its threads can have answered a read since.
        guard Self.drops(pagesOf: orphan, whileWaiting), !note.isEmpty else { return }
        MountNote.removeCleared(at: note) { Self.drops(pagesOf: orphan, whileWaiting) }
    }

    /// - Returns: whether none are left.
    private static func drops(pagesOf orphan: OrphanedConnection, _ whileWaiting: () -> Void) -> Bool {
        let isDone = TimedSemaphore()
        do throws(POSIXThread.Refusal) {
            try POSIXThread.detach(blocksSignals: true) { if orphan.dropPages() { isDone.signal() } }
        } catch { return false }
        let end = TimedSemaphore.now() + patience
        while !isDone.wait(for: .milliseconds(100)) {
            if TimedSemaphore.now() > end { return false }
            whileWaiting()
        }
        return true
    }
}
