import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys

/// One change of a file's content while it is made: sealed at once, committed later.
///
/// A change that fails half-way is never committed, and nor is anything else through the same handle. FORMAT.md §4 rule 15.
package struct Change {
    var writer: Writer
    /// What is to be committed: earlier writes, and those of this change.
    var pending: PendingWrites
    let keys: FileKeys
    let memory: SealedMemory
    /// The content records of what was pending before this change; nil if nothing was.
    private var records: PreparedCommit?

    /// Chunks between the extent and the area, so that a growing log does not meet it at once.
    static let gap: UInt64 = 256

    var file: LowerFile { writer.file }
    var state: FileState { writer.state }

    /// The content with this change as far as it is made.
    var view: FileView { FileView(file, state, pending: pending, isWriters: true, memory) }

    /// - Parameters:
    ///   - writer: given back changed by ``finish()``.
    ///   - keys: with the head key.
    init(_ writer: Writer, _ keys: FileKeys, _ memory: SealedMemory) {
        var writer = writer
        self.keys = keys
        self.memory = memory
        pending = writer.uncommitted?.writes ?? PendingWrites(on: writer.state.record)
        records = writer.uncommitted?.records
        writer.uncommitted = nil
        self.writer = writer
    }

    /// Seals what the commit will need, and leaves the change to the writer.
    mutating func finish() throws(DataProtectionError) {
        try fillSurplusHoles()
        guard pending.differs(from: state.record) else { return }
        let records = try prepare()
        writer.uncommitted = Writer.Uncommitted(writes: pending, records: records)
    }

    /// Seals the content records that the commit needs, on the path that is certain now.
    private mutating func prepare() throws(DataProtectionError) -> PreparedCommit {
        let base = state.record
        let opens = !pending.overwrites.chunks.isEmpty && !state.hasArea
        writer.sealCount += opens ? 2 : 1
        let count = writer.sealCount
        var opening: ContentRecord?
        let final: ContentRecord
        if pending.form == .chunked {
            final = ContentRecord(
                size: pending.size, layout: state.layout, holes: pending.holes,
                counter: base.counter + (opens ? 2 : 1), sealCount: count)
        } else {
            final = ContentRecord(inline: pending.size, counter: base.counter + 1, sealCount: count)
        }
        do throws(KeyError) {
            if opens {
                let end = state.layout.home(max(base.chunkCount, final.chunkCount) + Self.gap)
                var record = base
                record.counter += 1
                record.sealCount = count
                record.redoOffset = (end + 4095) / 4096 * 4096
                record.epoch = try Randomness.epoch()
                opening = record
            }
            let prefix = state.heads.head.prefix
            let head = keys.head()
            return PreparedCommit(
                opening: try opening.map { record throws(KeyError) in try record.sealed(in: prefix, under: head.bytes)
                },
                final: try final.sealed(in: prefix, under: head.bytes))
        } catch {
            throw .cryptography(error)
        }
    }

    // MARK: steps that write

    /// A file that was cut by much and grows again is committed in between: chunks of the cut that become holes are
    /// overwrites, and those of one commit must fit into one redo record when the holes are filled.
    mutating func commitLargeCut() throws(DataProtectionError) {
        guard state.record.size > pending.size, state.record.size - pending.size > UInt64(Writer.overwriteLimit),
            let records  // the cut is an earlier change
        else { return }
        writer.uncommitted = Writer.Uncommitted(writes: pending, records: records)
        self.records = nil
        try writer.commit()
        pending = PendingWrites(on: state.record)
    }

    /// Growth that would reach the area empties it first: nothing is written at home at or beyond a redo offset in force.
    mutating func makeRoom(forCount count: UInt64) throws(DataProtectionError) {
        guard state.hasArea, state.layout.home(count) > state.redoOffset else { return }
        // Without an area the commit needs other content records: this change seals them. A ``LoggedWrites`` of earlier ones is of no use until then.
        records = nil
        try writer.empty(keys: nil, keeping: pending)
    }

    /// Writes fresh chunks in memory to their homes if there are many.
    mutating func relieveMemory() throws(DataProtectionError) {
        guard pending.fresh.byteCount > Writer.freshLimit else { return }
        try writer.reach(pending.fresh.end(in: state.layout))
        try pending.putFreshHome(in: file, state.layout)
    }
}
