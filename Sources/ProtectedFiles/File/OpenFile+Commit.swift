import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import ProtectionKeys

/// The order of writes, FORMAT.md §4. Nothing here needs a key: everything was sealed when it was written.
extension OpenFile {
    /// Bytes of records after which the area is emptied.
    private static let areaLimit: UInt64 = 4 << 20
    /// Chunks between the extent and the area, so that a growing log does not meet it at once.
    private static let gap: UInt64 = 256
    /// Zeros written behind the last record, at most, in bytes.
    private static let roomLimit: UInt64 = 512 << 10

    /// Commits what is pending. When this returns it survives a crash and a power cut.
    package func sync() throws(DataProtectionError) {
        if let failure { throw .handleFailed(file.path, failure) }
        if writer?.pending != nil { return try commit() }
        // A dead writer's last record, or another handle's unflushed mirror, is what this handle has read.
        try dying { () throws(DataProtectionError) in try file.flush() }
    }

    /// Commits, empties the area, makes both heads equal, and closes. FORMAT.md §4 rule 11.
    package func close() throws(DataProtectionError) {
        if let failure {
            try? file.close()  // the earlier failure is the one to report
            throw .handleFailed(file.path, failure)
        }
        if writer != nil {
            do throws(DataProtectionError) {
                try commit()
                try dying { () throws(DataProtectionError) in
                    if state!.hasArea { try empty(keys: nil) }
                    try mirror()
                }
            } catch {
                try? file.close()  // the earlier failure is the one to report; nobody else is kept from writing
                throw error
            }
        }
        try file.close()
    }

    /// Forgets what was not committed.
    package func discard() { writer?.pending = nil }

    /// Runs a step whose failure makes the handle dead. FORMAT.md §4 rule 15.
    package func dying(_ step: () throws(DataProtectionError) -> Void) throws(DataProtectionError) {
        do throws(DataProtectionError) { try step() } catch {
            failure = error.errno
            throw error
        }
    }

    /// Forgets what no commit has acknowledged, half a change included, and refuses to go on. FORMAT.md §4 rule 15.
    package func giveUp(_ error: DataProtectionError) {
        failure = failure ?? error.errno
        writer?.pending = nil
    }

    /// Refuses to go on if nothing was changed, but the file is damaged.
    package func dieOfDamage(_ error: DataProtectionError) {
        switch error {
        case .damaged, .otherKey, .cryptography, .outOfRange, .tooSparse: failure = failure ?? error.errno
        default: break
        }
    }

    // MARK: beginning, rules 1 to 3

    /// Becomes the file's writer.
    package func beginWriting(_ operation: AttemptedOperation) throws(DataProtectionError) {
        guard try file.tryByteLock(Self.writerLock, .exclusive) else { throw .busy(file.path) }
        do throws(DataProtectionError) {
            state = nil
            let keys = try operateLocked(operation)
            try file.withByteLock(Self.slotLock, .exclusive) { () throws(DataProtectionError) in
                let heads = try rereadHeads()
                // After a failed flush the next one may say that all is well: what a dead writer left is then in doubt.
                try dying { () throws(DataProtectionError) in try file.flush() }
                state!.heads = heads
                try keepForeignBytes(keys, cutting: true)
                writer = Writer(flushedHead: heads.slots[heads.inForce], sealCount: state!.record.sealCount)
            }
            if state!.hasArea { try dying { () throws(DataProtectionError) in try empty(keys: keys) } }
        } catch {
            writer = nil
            try file.unlockByte(Self.writerLock)
            throw error
        }
    }

    // MARK: preparing

    /// Seals the content records that the commit needs, on the path that is certain now.
    package func prepare(_ keys: FileKeys) throws(Trouble) {
        let pending = writer!.pending!
        let base = state!.record
        let opens = !pending.overwrites.chunks.isEmpty && !state!.hasArea
        writer!.sealCount += opens ? 2 : 1
        let count = writer!.sealCount
        var opening: ContentRecord?
        let final: ContentRecord
        if pending.form == .chunked {
            final = ContentRecord(
                size: pending.size, layout: state!.layout, holes: pending.holes,
                counter: base.counter + (opens ? 2 : 1), sealCount: count)
        } else {
            final = ContentRecord(inline: pending.size, counter: base.counter + 1, sealCount: count)
        }
        do throws(KeyError) {
            if opens {
                let end = state!.layout.home(max(base.chunkCount, final.chunkCount) + Self.gap)
                var record = base
                record.counter += 1
                record.sealCount = count
                record.redoOffset = (end + 4095) / 4096 * 4096
                record.epoch = try Randomness.epoch()
                opening = record
            }
            let prefix = state!.heads.head.prefix
            let head = keys.head()
            writer!.pending!.prepared = PreparedCommit(
                opening: try opening.map { record throws(KeyError) in try record.sealed(in: prefix, under: head.bytes)
                },
                final: try final.sealed(in: prefix, under: head.bytes))
        } catch {
            throw .certain(.cryptography(error))
        }
    }

    // MARK: committing, rules 4 to 9

    /// Commits what is pending, if anything.
    package func commit() throws(DataProtectionError) {
        guard let pending = writer?.pending else { return }
        guard let prepared = pending.prepared else { throw .handleFailed(file.path, failure ?? .badMessage) }
        try dying { () throws(DataProtectionError) in
            let sizeBefore = state!.record.size
            if case .inline(let sealed) = pending.form {
                try locked { heads throws(DataProtectionError) in try putHead(prepared.final, sealed, heads) }
            } else if prepared.opening == nil && !state!.hasArea {
                try flushFresh()
                try locked { heads throws(DataProtectionError) in try putHead(prepared.final, [], heads) }
            } else {
                try commitRecord(prepared)
            }
            writer!.pending = nil
            try afterCommit(hasShrunk: state!.record.size < sizeBefore)
        }
    }

    /// Fresh chunks are at home and flushed before anything says that they are there.
    private func flushFresh() throws(DataProtectionError) {
        try putFreshHome()
        if !writer!.pending!.atHome.runs.isEmpty { try file.flush() }
    }

    private func commitRecord(_ prepared: PreparedCommit) throws(DataProtectionError) {
        // One single fresh chunk travels in the record and saves a flush.
        if writer!.pending!.fresh.chunks.count > 1 { try putFreshHome() }
        if !writer!.pending!.atHome.runs.isEmpty { try file.flush() }
        let pending = writer!.pending!
        let chunks = (pending.overwrites.ascending + pending.fresh.ascending).sorted { $0.index < $1.index }
        try locked { heads throws(DataProtectionError) in
            if let opening = prepared.opening { try writeHead(opening, [], heads) } else { state!.heads = heads }
            let encoded: (bytes: [UInt8], record: RedoRecord)
            do throws(KeyError) {
                encoded = try RedoRecord.encode(
                    file: state!.heads.head.prefix.fileID, epoch: state!.epoch, content: prepared.final, chunks: chunks)
            } catch {
                throw .cryptography(error)
            }
            try file.write(encoded.bytes + (try room(behind: encoded.bytes.count)), at: state!.areaEnd)
            try file.flush()
            state!.take(encoded.record, length: encoded.bytes.count)
        }
    }

    /// Zeros for the next records: a flush that changes neither the length of the file nor its blocks needs no journal
    /// commit. As many as there are records already, so that a handle that writes once pays nothing.
    private func room(behind count: Int) throws(DataProtectionError) -> [UInt8] {
        guard state!.areaEnd + UInt64(count) > (try file.length()) else { return [] }
        return [UInt8](repeating: 0, count: Int(min(state!.areaEnd - state!.redoOffset, Self.roomLimit)))
    }

    /// Rule 9, and keeping the area short.
    private func afterCommit(hasShrunk: Bool) throws(DataProtectionError) {
        if state!.hasArea {
            if hasShrunk || state!.areaEnd - state!.redoOffset > Self.areaLimit { try empty(keys: nil) }
        } else if hasShrunk {
            let extent = state!.layout.extent(of: state!.record, generation: state!.heads.head.generation)
            try file.truncate(to: extent)
        }
    }

    // MARK: emptying, rule 10

    /// Puts recorded chunks in their places and ends the area.
    ///
    /// - Parameter keys: to seal a content record for an area without any record; only a dead writer leaves one.
    package func empty(keys: FileKeys?) throws(DataProtectionError) {
        // Without an area the next commit needs other records. Who empties before a commit seals them.
        writer?.pending?.prepared = nil
        try locked { heads throws(DataProtectionError) in
            state!.heads = heads
            try state!.putInPlace(in: file)
            try file.flush()
            let closing = state!.hasRecords ? state!.content : try closingContent(keys)
            try putHead(closing, [], heads)
            let extent = state!.layout.extent(of: state!.record, generation: state!.heads.head.generation)
            let ahead = writer?.pending?.atHome.runs.last.map { state!.layout.home($0.upperBound) } ?? 0
            try file.truncate(to: max(extent, ahead))
        }
    }

    private func closingContent(_ keys: FileKeys?) throws(DataProtectionError) -> SealedContent {
        guard let keys else {  // only an area that a dead writer left can be without records
            throw .damaged(file.path, .redoRecord, reason: "the area has lost its records", offset: nil)
        }
        var record = state!.record
        record.counter += 1
        record.sealCount += 1
        record.redoOffset = 0
        record.epoch = 0
        do throws(KeyError) {
            return try record.sealed(in: state!.heads.head.prefix, under: keys.head().bytes)
        } catch {
            throw .cryptography(error)
        }
    }

    // MARK: heads

    /// Makes both heads equal, without a flush: rule 2 makes that safe. Cuts what lies beyond the extent.
    private func mirror() throws(DataProtectionError) {
        try locked { heads throws(DataProtectionError) in
            state!.heads = heads
            if !heads.isMirrored {
                try file.write(heads.slots[heads.inForce], at: UInt64(heads.target * Head.length))
            }
            let extent = state!.layout.extent(of: state!.record, generation: heads.head.generation)
            if try file.length() > extent { try file.truncate(to: extent) }
        }
    }

    /// Runs `body` under the slot lock with the heads as they are now; a head that this handle has not flushed is flushed.
    private func locked(_ body: (HeadPair) throws(DataProtectionError) -> Void) throws(DataProtectionError) {
        try file.withByteLock(Self.slotLock, .exclusive) { () throws(DataProtectionError) in
            let heads = try rereadHeads()
            if heads.slots[heads.inForce] != writer!.flushedHead {
                try file.flush()
                writer!.flushedHead = heads.slots[heads.inForce]
            }
            try body(heads)
        }
    }

    private func rereadHeads() throws(DataProtectionError) -> HeadPair {
        if try state!.heads.isUnchanged(in: file) { return state!.heads }
        do throws(Trouble) {
            let heads = try HeadPair(reading: file, isLocked: true)
            guard heads.head.content == state!.heads.head.content else {
                throw .certain(.damaged(file.path, .head, reason: "changed by somebody else", offset: nil))
            }
            return heads
        } catch {
            throw error.reported
        }
    }

    /// New content into the slot not in force, the wrap record verbatim from the one in force; flushed.
    private func putHead(
        _ content: SealedContent, _ inline: [UInt8], _ heads: HeadPair
    ) throws(DataProtectionError) {
        try writeHead(content, inline, heads)
        try file.flush()
    }

    /// The same without a flush: the first record of an area shares its flush with the head that opens it.
    private func writeHead(
        _ content: SealedContent, _ inline: [UInt8], _ heads: HeadPair
    ) throws(DataProtectionError) {
        let head = heads.head.replacing(content: content, inline: inline)
        let bytes = try withKeys { () throws(KeyError) in try head.encoded() }
        try file.write(bytes, at: UInt64(heads.target * Head.length))
        var heads = heads
        heads.put(head, bytes: bytes)
        writer!.flushedHead = bytes
        state = FileState(heads)
    }
}
