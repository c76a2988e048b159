import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import ProtectionKeys

/// The order of writes, FORMAT.md §4 rules 4 to 11. After an error the writer must not be used again: rule 15.
extension Writer {
    /// Bytes of records after which the area is emptied.
    private static let areaLimit: UInt64 = 4 << 20
    /// Zeros written behind the last record, at most, in bytes.
    private static let roomLimit: UInt64 = 512 << 10

    // MARK: committing, rules 4 to 9

    /// Commits what is pending, if anything. When this returns it survives a crash and a power cut.
    mutating func commit() throws(DataProtectionError) {
        guard let uncommitted else { return }
        let records = uncommitted.records
        var writes = uncommitted.writes
        let sizeBefore = state.record.size
        if case .inline(let sealed) = writes.form {
            try locked { writer throws(DataProtectionError) in try writer.putHead(records.final, sealed) }
        } else if records.opening == nil && !state.hasArea {
            // Fresh chunks are at home and flushed before anything says that they are there.
            try reach(writes.fresh.end(in: state.layout))
            try writes.putFreshHome(in: file, state.layout)
            if !writes.atHome.runs.isEmpty { try file.flush() }
            try locked { writer throws(DataProtectionError) in try writer.putHead(records.final, []) }
        } else {
            try commitRecord(&writes, records)
        }
        self.uncommitted = nil
        try afterCommit(hasShrunk: state.record.size < sizeBefore)
    }

    private mutating func commitRecord(
        _ writes: inout PendingWrites, _ records: PreparedCommit
    ) throws(DataProtectionError) {
        // One single fresh chunk travels in the record and saves a flush.
        if writes.fresh.chunks.count > 1 {
            try reach(writes.fresh.end(in: state.layout))
            try writes.putFreshHome(in: file, state.layout)
        }
        if !writes.atHome.runs.isEmpty { try file.flush() }
        let chunks = (writes.overwrites.ascending + writes.fresh.ascending).sorted { $0.index < $1.index }
        try locked { writer throws(DataProtectionError) in
            // The first record of an area shares its flush with the head that opens it.
            if let opening = records.opening { try writer.writeHead(opening, []) }
            try writer.putRecord(records.final, chunks)
        }
    }

    private mutating func putRecord(
        _ content: SealedContent, _ chunks: [(index: UInt64, sealed: [UInt8])]
    ) throws(DataProtectionError) {
        let encoded: (bytes: [UInt8], record: RedoRecord)
        do throws(KeyError) {
            encoded = try RedoRecord.encode(
                file: state.heads.head.prefix.fileID, epoch: state.epoch, content: content, chunks: chunks)
        } catch {
            throw .cryptography(error)
        }
        var bytes = encoded.bytes
        if let room = room(behind: bytes.count) {
            bytes += repeatElement(0, count: room)
            try mark(behind: state.areaEnd + UInt64(bytes.count))
        }
        try file.write(bytes, at: state.areaEnd)
        try file.flush()
        state.take(encoded.record, length: encoded.bytes.count)
    }

    /// Zeros for the next records, in bytes: a flush that changes neither the length of the file nor its blocks needs no journal
    /// commit. As many as there are records already, so that a handle that writes once pays nothing. They cover the mark before.
    ///
    /// - Returns: nil if a record of `count` bytes does not make the file longer.
    private func room(behind count: Int) -> Int? {
        let place = state.areaEnd + UInt64(count)
        guard place > end.free else { return nil }
        return Int(max(min(state.areaEnd - state.redoOffset, Self.roomLimit), max(place, end.length) - place))
    }

    /// Rule 9, and keeping the area short.
    private mutating func afterCommit(hasShrunk: Bool) throws(DataProtectionError) {
        if state.hasArea {
            if hasShrunk || state.areaEnd - state.redoOffset > Self.areaLimit { try empty(keys: nil) }
        } else if hasShrunk {
            try cut(to: state.extent)
        }
    }

    // MARK: emptying, rule 10

    /// Puts recorded chunks in their places and ends the area. The next commit needs other content records then.
    ///
    /// - Parameters:
    ///   - keys: to seal a content record for an area without any record; only a dead writer leaves one.
    ///   - pending: its chunks that are at home, though no commit names them yet, are not cut off.
    mutating func empty(keys: FileKeys?, keeping pending: PendingWrites? = nil) throws(DataProtectionError) {
        try locked { writer throws(DataProtectionError) in
            try writer.state.putInPlace(in: writer.file)
            try writer.file.flush()
            let state = writer.state
            try writer.putHead(state.hasRecords ? state.content : try state.closingContent(writer.file, keys), [])
            try writer.cut(to: max(writer.state.extent, pending?.endAtHome(in: state.layout) ?? 0))
        }
    }

    // MARK: closing, rule 11

    /// Commits, empties the area, and makes both heads equal.
    mutating func finish() throws(DataProtectionError) {
        try commit()
        if state.hasArea { try empty(keys: nil) }
        try mirror()
    }

    /// Cuts what lies beyond the extent. Then makes both heads equal, without a flush: rule 2 makes that safe.
    private mutating func mirror() throws(DataProtectionError) {
        try locked { writer throws(DataProtectionError) in
            try writer.keepAppended()
            let (file, heads) = (writer.file, writer.state.heads)
            if writer.end.length > writer.state.extent { try writer.cut(to: writer.state.extent) }
            if !heads.isMirrored {
                try file.write(heads.slots[heads.inForce], at: UInt64(heads.target * Head.length))
            }
        }
    }

    // MARK: heads

    /// Runs `body` under the slot lock with the heads as they are now; a head that this writer has not flushed is flushed.
    mutating func locked(
        _ body: (inout Writer) throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) {
        // What was written is not given up because somebody sits on the lock.
        try file.withByteLock(ByteLocks.slot, .exclusive, waiting: nil) { () throws(DataProtectionError) in
            try state.rereadHeads(of: file)
            let current = state.heads.slots[state.heads.inForce]
            if current != flushedHead {
                try file.flush()
                flushedHead = current
            }
            followHeads()
            try body(&self)
        }
    }

    /// New content into the slot not in force, the wrap record verbatim from the one in force; flushed.
    private mutating func putHead(_ content: SealedContent, _ inline: [UInt8]) throws(DataProtectionError) {
        try writeHead(content, inline)
        try file.flush()
    }

    /// The same without a flush.
    private mutating func writeHead(_ content: SealedContent, _ inline: [UInt8]) throws(DataProtectionError) {
        var heads = state.heads
        let head = heads.head.replacing(content: content, inline: inline)
        let bytes = try withKeys { () throws(KeyError) in try head.encoded() }
        if heads.target == 1 { try reachSecondHead() }
        try file.write(bytes, at: UInt64(heads.target * Head.length))
        heads.put(head, bytes: bytes)
        flushedHead = bytes
        state = FileState(heads)
    }
}

extension FileState {
    /// Takes the heads as they are now, under the slot lock. Only the wrap record can have been changed by somebody else.
    package mutating func rereadHeads(of file: LowerFile) throws(DataProtectionError) {
        if try heads.isUnchanged(in: file) { return }
        do throws(Trouble) {
            let now = try HeadPair(reading: file, isLocked: true)
            guard now.head.content == heads.head.content else {
                throw .certain(.damaged(file.path, .head, reason: "changed by somebody else", offset: nil))
            }
            heads = now
        } catch {
            throw error.reported
        }
    }

    /// Ends an area without records.
    fileprivate func closingContent(
        _ file: LowerFile, _ keys: FileKeys?
    ) throws(DataProtectionError) -> SealedContent {
        guard let keys else {  // only an area that a dead writer left can be without records
            throw .damaged(file.path, .redoRecord, reason: "the area has lost its records", offset: nil)
        }
        var record = record
        record.counter += 1
        record.sealCount += 1
        record.redoOffset = 0
        record.epoch = 0
        do throws(KeyError) {
            return try record.sealed(in: heads.head.prefix, under: keys.head().bytes)
        } catch {
            throw .cryptography(error)
        }
    }
}
