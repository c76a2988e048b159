import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys

/// The one writer of a file: the content that it has committed, and the writes that it has not.
///
/// It needs no key. All that a commit writes was sealed before, by a ``Change``.
package struct Writer {
    let file: LowerFile
    /// The committed content. Nobody else moves it; another process may change the wrap record in the heads.
    var state: FileState
    /// The head that this writer flushed last; any other one is flushed before a slot is overwritten. FORMAT.md §4 rule 2.
    var flushedHead: [UInt8]
    /// What it answers for. FORMAT.md §4 rule 16.
    var end: OwnEnd
    /// Told where bytes of another program are.
    let warn: @Sendable (ProtectionWarning) -> Void
    /// Seals made under the file's keys, those that never reached the disk included. FORMAT.md §3.8.
    ///
    /// Seals are counted, not reserved ahead. With a reservation of 2^16 at each open, a log that is opened once a minute would use
    /// up its key in three weeks.
    var sealCount: UInt64
    /// What was written since the last commit; nil if nothing was.
    var uncommitted: Uncommitted?

    /// Writes, and the content records that their commit needs.
    struct Uncommitted {
        var writes: PendingWrites
        let records: PreparedCommit
    }

    /// - Parameters:
    ///   - state: as just read under the slot lock, which is still held; the writer lock is too.
    ///   - length: of the file, in bytes; nothing of another program is in it.
    init(
        of file: LowerFile, _ state: FileState, length: UInt64, warn: @escaping @Sendable (ProtectionWarning) -> Void
    ) {
        self.file = file
        self.state = state
        self.warn = warn
        end = OwnEnd(length: length)
        flushedHead = state.heads.slots[state.heads.inForce]
        sealCount = state.record.sealCount
    }

    /// Sealed overwrites in memory, in bytes, above which a write commits by itself: they must fit into one redo record.
    static let overwriteLimit = 8 << 20
    /// Sealed fresh chunks in memory, in bytes, above which they are written at home ahead of the commit.
    static let freshLimit = 1 << 20
    /// Seals after which a write commits by itself, so that a crash cannot hide more. FORMAT.md §3.8.
    static let sealLimit: UInt64 = 1 << 16

    /// Writes or commits what exceeds these limits.
    ///
    /// - Returns: whether anything did.
    mutating func relieve() throws(DataProtectionError) -> Bool {
        guard let overwritten = uncommitted?.writes.overwrites.byteCount else { return false }
        var isMuch = false
        if let fresh = uncommitted?.writes.fresh.byteCount, fresh > Self.freshLimit {
            isMuch = true
            try reach(uncommitted?.writes.fresh.end(in: state.layout) ?? 0)
            try uncommitted?.writes.putFreshHome(in: file, state.layout)
        }
        let uncounted = sealCount - min(state.record.sealCount, sealCount)
        guard overwritten > Self.overwriteLimit || uncounted > Self.sealLimit else { return isMuch }
        try commit()
        return true
    }
}

/// The content records of the next commit. FORMAT.md §4, "write() and truncation seal, commits do not".
package struct PreparedCommit {
    /// The head that opens an area, when the commit does.
    package let opening: SealedContent?
    /// The record of the new state.
    package let final: SealedContent
}
