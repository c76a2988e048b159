import DataProtection
import DurableFiles
import FuseSession
import Glibc
import ProtectedFiles
import Synchronization
import SystemPackage

/// Writes that a dead server has acknowledged and not committed. Each file gets them before anything else is done with it.
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

    func isWaiting(_ node: FuseNode) -> Bool { state.withLock { $0.waiting.contains(node) } }

    /// What came of writes that were left.
    private enum Outcome {
        case kept
        case lost
        /// It may be possible later.
        case waiting(Errno)
    }

    /// Commits what is left of a file, if anything is.
    ///
    /// - Parameter open: opens it for reading and writing.
    /// - Throws: why it is not possible yet: ENOKEY, or EBUSY while the dead server has not closed everything. Nothing else must be done with the
    ///   contents before.
    func commit(_ node: FuseNode, _ open: () throws(Errno) -> LowerFile) throws(Errno) {
        guard isWaiting(node) else { return }
        let outcome = turn.withLock { _ in
            guard isWaiting(node) else { return Outcome.kept }
            let outcome = attempt(node, open)
            if case .waiting = outcome { return outcome }
            var isLost = false
            if case .lost = outcome { isLost = true }
            writes.note(node, nil, isLost: isLost)
            state.withLock { state in
                state.waiting.remove(node)
                if isLost { state.lost.insert(node) }
            }
            return outcome
        }
        if case .waiting(let errno) = outcome { throw errno }
    }

    private func attempt(_ node: FuseNode, _ open: () throws(Errno) -> LowerFile) -> Outcome {
        guard let left = writes.left(of: node) else { return .lost }
        let lower: LowerFile
        // It may have another name by now, by which it is found later.
        do throws(Errno) { lower = try open() } catch { return .waiting(error) }
        do throws(DataProtectionError) {
            let file = try ProtectedFile.writing(lower, keybag: keybag)
            let isKept = try file.commit(left)
            try file.close()
            return isKept ? .kept : .lost
        } catch {
            switch error.errno {
            case .noKey, .resourceBusy, .tooManyOpenFiles, .tooManyOpenFilesInSystem, .noMemory:
                return .waiting(error.errno)
            default: return .lost
            }
        }
    }

    /// - Throws: EIO.
    func requireNothingLost(_ node: FuseNode) throws(Errno) {
        if state.withLock({ $0.lost.contains(node) }) { throw .ioError }
    }
}
