import DurableFiles
import Keybags
import ProtectedFiles
import SystemPackage

/// Does the work of notes that this process holds.
struct HeldWork {
    let keybag: Keybag
    /// As in ``Keybag/performQueuedWork(only:into:keepingLost:showing:reporting:)``.
    var log: ProtectedFile?
    var keepingLost = false
    var show: (_ files: Int, _ bytes: Int64) -> Void = { _, _ in }

    /// - Parameter others: called with all failures but the last one, where there are several.
    func perform(
        _ note: inout QueueNote, others: (DataProtectionError) -> Void = { _ in }
    ) -> QueuedWorkResult.Outcome {
        do throws(DataProtectionError) {
            let outcome: QueuedWorkResult.Outcome
            switch note.records.first {
            case .raise(let file, let from, let to):
                outcome = try QueuedRaise.perform(file, from: from, to: to, keybag)
            case .join(let segment, let path, let seal):
                outcome = try SegmentJoin(keybag: keybag, log: path, seal: seal, own: log).perform(segment, &note)
            case .late(let file, let salt): outcome = try LatePagesMerge(keybag: keybag).perform(file, salt)
            case .upgrade(let upgrade):
                let summary = try upgrade.perform(keybag, showing: show)
                for failure in summary?.failures.dropLast() ?? [] { others(failure.error) }
                if let error = summary?.lastError {
                    if keepingLost { throw error }
                    try note.remove()
                    return .failed(error)
                }
                outcome = summary.map { $0.converted + $0.raised > 0 ? .done : .unneeded } ?? .gone
            default: return .waiting
            }
            if outcome == .gone, keepingLost {
                noteFailure(.noSuchFileOrDirectory, &note)
                return outcome
            }
            if outcome == .gone, let work = QueuedWork(note) { keybag.warn(.queuedFileGone(work.path)) }
            try note.remove()
            return outcome
        } catch {
            if case .because(KeybagFailure.locked) = error { return .waiting }
            noteFailure(error.errno, &note)
            return .failed(error)
        }
    }

    /// That it cannot be noted is no second failure.
    private func noteFailure(_ errno: Errno, _ note: inout QueueNote) {
        let work = QueuedWork(note)
        if work?.lastError != errno || work?.isUpgrade == true { try? note.add(.failed(errno, at: Clock.now())) }
    }
}
