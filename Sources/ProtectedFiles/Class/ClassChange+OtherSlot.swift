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
        } else if heads.head.generation == 1, heads.head.content.record.isInline,
            heads.slots[heads.target].contains(where: { $0 != 0 })
        {
            // Held until the file is closed.
            guard try file.tryByteLock(OpenFile.writerLock, .exclusive) else { throw .busy(file.path) }
            let (start, length) = (UInt64(Head.length), try file.length())
            let kept = try KeptBeside.appended(file, from: start, to: length)
            if let kept { warn(.appendedBytesSaved(file.path, byteCount: length - start, in: kept)) }
            try file.truncate(to: start)
        }
    }
}
