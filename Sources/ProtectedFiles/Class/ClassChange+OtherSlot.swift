import DurableFiles
import ProtectionFormat
import ProtectionKeys

extension ClassChange {
    /// Saves what the head that is about to be written would overwrite, if no writer of ours can answer for it. Under the slot lock.
    ///
    /// - Throws: `busy` if bytes were appended to a small file that somebody is writing to; `system`.
    package static func keepOtherSlot(
        _ heads: HeadPair, _ file: LowerFile, warn: (ProtectionWarning) -> Void
    ) throws(DataProtectionError) {
        let end = UInt64(2 * Head.length)
        if try withKeys({ () throws(KeyError) in try heads.damagedSlot() }) == .mayBeNewer {
            let kept = try KeptBeside.remains(file, from: end, to: end)
            if let kept { warn(.remainsSaved(file.path, in: kept)) }
        } else {
            try keepAppended(heads, file, warn: warn)
        }
    }

    /// Saves what was appended to a small file of one head, where the second head will be. Directly before that is written.
    ///
    /// - Throws: `busy` if somebody is writing to the file; `system`.
    static func keepAppended(
        _ heads: HeadPair, _ file: LowerFile, warn: (ProtectionWarning) -> Void
    ) throws(DataProtectionError) {
        let start = UInt64(Head.length)
        guard heads.head.generation == 1, heads.head.content.record.isInline, heads.target == 1,
            try file.bytes(at: start, count: Head.length).contains(where: { $0 != 0 })
        else { return }
        // Held until the file is closed.
        guard try file.tryByteLock(OpenFile.writerLock, .exclusive) else { throw .busy(file.path) }
        try KeptBeside.moveAppended(file, from: start, warn: warn)
    }
}
