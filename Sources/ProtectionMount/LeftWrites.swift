import DataProtection
import DurableFiles
import FuseSession
import Glibc
import ProtectedFiles
import Synchronization
import SystemPackage

/// Writes that a dead server has acknowledged and not committed. Each file gets them before anything else is done with it; while it is locked they wait.
final class LeftWrites: Sendable {
    private struct State {
        /// Files that do not have theirs yet.
        var waiting: Set<FuseNode> = []
        /// Files that cannot get them: programs that have them open for writing are told.
        var lost: Set<FuseNode> = []
    }
    private let state: Mutex<State>
    /// One file after the other.
    private let turn = Mutex(())
    private let writes: RecordedWrites
    private let keybag: Keybag

    init(_ writes: RecordedWrites, _ keybag: Keybag) {
        (self.writes, self.keybag) = (writes, keybag)
        var found = State()
        writes.record.forEachNode(.uncommitted) { found.waiting.insert($0) }
        writes.record.forEachNode(.lost) { found.lost.insert($0) }
        state = Mutex(found)
    }

    /// The files that do not have theirs yet.
    var waiting: [FuseNode] { state.withLock { Array($0.waiting) } }

    /// Commits what is left of a file, if anything is.
    ///
    /// - Parameter open: opens it for reading and writing.
    func commit(_ node: FuseNode, _ open: () throws(Errno) -> LowerFile) {
        func isWaiting() -> Bool { state.withLock { $0.waiting.contains(node) } }
        guard isWaiting() else { return }
        turn.withLock { _ in
            guard isWaiting(), let isKept = keep(node, open) else { return }
            if !isKept { writes.record.mark(node, .lost) }
            writes.note(node, nil)
            state.withLock { state in
                state.waiting.remove(node)
                if !isKept { state.lost.insert(node) }
            }
        }
    }

    /// - Returns: whether the file has them; nil while it is locked.
    private func keep(_ node: FuseNode, _ open: () throws(Errno) -> LowerFile) -> Bool? {
        guard let left = writes.left(of: node), let lower = try? open() else { return false }
        // The dead server can hold its lock on the file for a moment.
        for _ in 0..<200 {
            do throws(DataProtectionError) {
                let file = try ProtectedFile.writing(lower, keybag: keybag)
                let isKept = try file.commit(left)
                try file.close()
                return isKept
            } catch {
                switch error.errno {
                case .resourceBusy: usleep(10_000)
                case .noKey: return nil
                default: return false
                }
            }
        }
        return false
    }

    /// - Throws: EIO.
    func requireNothingLost(_ node: FuseNode) throws(Errno) {
        if state.withLock({ $0.lost.contains(node) }) { throw .ioError }
    }
}
