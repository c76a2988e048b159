import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import ProtectionKeys

extension OpenFile {
    /// Sealed overwrites in memory, in bytes, above which a write commits by itself: they must fit into one redo record.
    private static let overwriteLimit = 8 << 20
    /// Sealed fresh chunks in memory, in bytes, above which they are written at home ahead of the commit.
    private static let freshLimit = 1 << 20
    /// Seals after which a write commits by itself, so that a crash cannot hide more. FORMAT.md §3.8.
    private static let sealLimit: UInt64 = 1 << 16

    /// Writes all of `buffer` at `offset`. Sealed when this returns, committed by ``sync()``.
    package func write(_ buffer: UnsafeRawBufferPointer, at offset: UInt64) throws(DataProtectionError) {
        guard offset <= ChunkLayout.maximumSize, UInt64(buffer.count) <= ChunkLayout.maximumSize - offset else {
            throw .outOfRange(file.path)
        }
        var done = 0
        while done < buffer.count {
            let part = UnsafeRawBufferPointer(rebasing: buffer[done...].prefix(Self.segment))
            try change(.write, continuing: done > 0) { keys throws(Trouble) in
                try writeSegment(part, at: offset + UInt64(done), keys)
            }
            done += part.count
        }
    }

    /// Makes the file `size` bytes long: cut, or continued with zeros.
    package func truncate(to size: UInt64) throws(DataProtectionError) {
        guard size <= ChunkLayout.maximumSize else { throw .outOfRange(file.path) }
        try change(.truncate) { keys throws(Trouble) in
            if isInline(state!) {
                if size <= UInt64(ChunkLayout.maximumInline) { return try resizeInline(to: size, keys) }
                try leaveHead(keys)
            }
            let old = writer!.pending!.size
            if size < old { try shrink(to: size, keys) }
            if size > old { try extend(to: size, touching: 0..<0, keys) }
            writer!.pending!.size = size
        }
    }

    /// Prepares for writing, changes what is pending, and seals what the commit will need.
    ///
    /// - Parameter continuing: whether a part of the same write is pending already.
    private func change(
        _ operation: AttemptedOperation, continuing: Bool = false, _ body: (FileKeys) throws(Trouble) -> Void
    ) throws(DataProtectionError) {
        guard isWritable else { throw .notOpen(file.path, for: operation) }
        if let failure { throw .handleFailed(file.path, failure) }
        if writer == nil { try beginWriting(operation) }
        try checkSeals()
        try apply(operation, continuing, body)
        guard let pending = writer!.pending else { return }
        if pending.fresh.byteCount > Self.freshLimit {
            try dying { () throws(DataProtectionError) in try putFreshHome() }
        }
        let uncounted = writer!.sealCount - min(state!.record.sealCount, writer!.sealCount)
        if pending.overwrites.byteCount > Self.overwriteLimit || uncounted > Self.sealLimit { try commit() }
    }

    /// Runs `body` on what is pending. If it fails half-way, the handle is dead and nothing of the change is ever committed.
    private func apply(
        _ operation: AttemptedOperation, _ continuing: Bool, _ body: (FileKeys) throws(Trouble) -> Void
    ) throws(DataProtectionError) {
        var hasBegun = false
        do throws(DataProtectionError) {
            try operate(operation, needsHead: true) { state, keys throws(Trouble) in
                hasBegun = true
                do throws(Trouble) {
                    if writer!.pending == nil { writer!.pending = PendingWrites(on: state.record) }
                    try body(keys)
                    try fillSurplusHoles(keys)
                    if writer!.pending!.differs(from: self.state!.record) {
                        try prepare(keys)
                    } else {
                        writer!.pending = nil
                    }
                } catch {
                    // A second look would start from half a change, and find the same: only this writer moves content.
                    throw .certain(error.reported)
                }
            }
        } catch {
            var isHalf = hasBegun
            // Of a longer write a part may be committed if the key has gone, but not if the disk has failed.
            if continuing, case .system = error { isHalf = true }
            if isHalf { giveUp(error) } else { dieOfDamage(error) }
            throw error
        }
    }

    private func checkSeals() throws(DataProtectionError) {
        let count = writer!.sealCount
        if count >= 1 << 31 { throw .needsRekey(file.path) }
        if count >= 1 << 30 { keybag.warn(.manySeals(file.path, count)) }
    }

    // MARK: chunks

    private func writeSegment(
        _ part: UnsafeRawBufferPointer, at offset: UInt64, _ keys: FileKeys
    ) throws(Trouble) {
        let end = offset + UInt64(part.count)
        if isInline(state!) {
            if max(writer!.pending!.size, end) <= UInt64(ChunkLayout.maximumInline) {
                return try writeInline(part, at: Int(offset), keys)
            }
            try leaveHead(keys)
        }
        let layout = state!.layout
        let touched = layout.index(of: offset)..<layout.index(of: end - 1) + 1
        let size = max(writer!.pending!.size, end)
        if size > writer!.pending!.size { try extend(to: size, touching: touched, keys) }
        var index = touched.lowerBound
        while index < touched.upperBound {
            let whole = wholeFreshRun(from: index, below: touched.upperBound, part, offset, size)
            if whole.count >= 4 {
                try sealHome(whole, part, offset, size, keys)
                index = whole.upperBound
            } else {
                try patch(index, part, offset, size, keys)
                index += 1
            }
        }
        writer!.pending!.size = max(writer!.pending!.size, size)
    }

    /// Continues with zeros up to `size`, but for the chunks in `touched`, which the caller writes. Leaves the size to it.
    private func extend(
        to size: UInt64, touching touched: Range<UInt64>, _ keys: FileKeys
    ) throws(Trouble) {
        let layout = state!.layout
        try commitLargeCut(keys)
        let old = writer!.pending!.size
        let oldCount = layout.chunkCount(size: old)
        let count = layout.chunkCount(size: size)
        try makeRoom(forCount: count)
        let last = oldCount == 0 ? 0 : oldCount - 1
        let isPartial = old % UInt64(layout.chunkSize) != 0 && !writer!.pending!.holes.contains(last)
        if isPartial, !touched.contains(last) {
            // A partial last chunk is sealed again at its new length.
            let text = WipedBuffer(count: layout.plainLength(last, size: size))
            try view.open(last, into: text.prefix(layout.plainLength(last, size: old)), keys)
            try seal(last, text, keys)
        }
        writer!.pending!.holes.insert(oldCount..<max(oldCount, count))
    }

    /// A file that was cut by much and grows again is committed in between: chunks of the cut that become holes are
    /// overwrites, and those of one commit must fit into one redo record when the holes are filled.
    private func commitLargeCut(_ keys: FileKeys) throws(Trouble) {
        let size = writer!.pending!.size
        guard state!.record.size > size, state!.record.size - size > UInt64(Self.overwriteLimit) else { return }
        try certainly { () throws(DataProtectionError) in try commit() }
        writer!.pending = PendingWrites(on: state!.record)
    }

    private func shrink(to size: UInt64, _ keys: FileKeys) throws(Trouble) {
        let layout = state!.layout
        let count = layout.chunkCount(size: size)
        if size % UInt64(layout.chunkSize) != 0, !writer!.pending!.holes.contains(count - 1) {
            let old = WipedBuffer(count: layout.plainLength(count - 1, size: writer!.pending!.size))
            try view.open(count - 1, into: old.prefix(old.count), keys)
            let text = WipedBuffer(count: layout.plainLength(count - 1, size: size))
            text.bytes.copyMemory(from: UnsafeRawBufferPointer(rebasing: old.bytes[..<text.count]))
            try seal(count - 1, text, keys)
        }
        writer!.pending!.cut(toCount: count)
    }

    /// Puts the part of the segment that is in chunk `index` into it.
    private func patch(
        _ index: UInt64, _ part: UnsafeRawBufferPointer, _ offset: UInt64, _ size: UInt64, _ keys: FileKeys
    ) throws(Trouble) {
        let layout = state!.layout
        let start = index * UInt64(layout.chunkSize)
        let length = layout.plainLength(index, size: size)
        let first = Int(max(offset, start) - offset)
        let end = Int(min(offset + UInt64(part.count), start + UInt64(length)) - offset)
        let bytes = UnsafeRawBufferPointer(rebasing: part[first..<end])
        if bytes.count == length { return try seal(index, bytes, keys) }
        let text = WipedBuffer(count: length)
        let oldLength = layout.plainLength(index, size: writer!.pending!.size)
        if oldLength > 0 { try view.open(index, into: text.prefix(oldLength), keys) }
        let within = Int(offset + UInt64(first) - start)
        UnsafeMutableRawBufferPointer(rebasing: text.bytes[within..<within + bytes.count]).copyMemory(from: bytes)
        try seal(index, text, keys)
    }

    private var view: ChunkView { ChunkView(file: file, state: state!, pending: writer?.pending, memory: memory) }

    package func seal(_ index: UInt64, _ text: WipedBuffer, _ keys: FileKeys) throws(Trouble) {
        try seal(index, UnsafeRawBufferPointer(rebasing: text.bytes[..<text.count]), keys)
    }

    private func seal(_ index: UInt64, _ text: UnsafeRawBufferPointer, _ keys: FileKeys) throws(Trouble) {
        var sealed = [UInt8](repeating: 0, count: text.count + ChunkLayout.overhead)
        try certainly { () throws(DataProtectionError) in
            let nonce = try withKeys { () throws(KeyError) in try Randomness.bytes(12) }
            try nonce.lendBytes { nonce throws(DataProtectionError) in
                try sealed.lendMutableBytes { sealed throws(DataProtectionError) in
                    try keys.seal(chunk: index, text, nonce: nonce, into: sealed)
                }
            }
        }
        writer!.sealCount += 1
        writer!.pending!.put(sealed, at: index, isFresh: state!.isFresh(index))
    }

    // MARK: fresh chunks, written at home ahead of the commit

    /// Chunks from `index` on that the segment covers whole and on whose home nothing committed depends.
    private func wholeFreshRun(
        from index: UInt64, below end: UInt64, _ part: UnsafeRawBufferPointer, _ offset: UInt64, _ size: UInt64
    ) -> Range<UInt64> {
        let chunkSize = UInt64(state!.layout.chunkSize)
        var next = index
        while next < end, next * chunkSize >= offset, state!.isFresh(next),
            min((next + 1) * chunkSize, size) <= offset + UInt64(part.count)
        {
            next += 1
        }
        return index..<next
    }

    private func sealHome(
        _ indexes: Range<UInt64>, _ part: UnsafeRawBufferPointer, _ offset: UInt64, _ size: UInt64, _ keys: FileKeys
    ) throws(Trouble) {
        let layout = state!.layout
        let first = Int(indexes.lowerBound * UInt64(layout.chunkSize) - offset)
        let end = Int(min(indexes.upperBound * UInt64(layout.chunkSize), size) - offset)
        try certainly { () throws(DataProtectionError) in
            let sealed = try SealedRun(
                UnsafeRawBufferPointer(rebasing: part[first..<end]), from: indexes.lowerBound, layout, keys,
                memory: memory)
            try dying { () throws(DataProtectionError) in
                try file.write(sealed.bytes, at: layout.home(indexes.lowerBound))
            }
        }
        writer!.sealCount += UInt64(indexes.count)
        writer!.pending!.putAtHome(indexes)
    }

    /// Writes all fresh chunks in memory to their homes.
    package func putFreshHome() throws(DataProtectionError) {
        for chunk in writer!.pending!.fresh.ascending {
            try file.write(chunk.sealed, at: state!.layout.home(chunk.index))
            writer!.pending!.putAtHome(chunk.index..<chunk.index + 1)
        }
    }

    /// A content record has room for 32 runs: the shortest are sealed as zero chunks.
    private func fillSurplusHoles(_ keys: FileKeys) throws(Trouble) {
        while writer!.pending!.holes.runs.count > ChunkRuns.maximumRuns, let run = writer!.pending!.holes.shortest {
            try requireRoom(forFilling: run)
            for index in run {
                let length = state!.layout.plainLength(index, size: writer!.pending!.size)
                try seal(index, WipedBuffer(count: length), keys)
                if writer!.pending!.fresh.byteCount > Self.freshLimit {
                    try certainly { () throws(DataProtectionError) in
                        try dying { () throws(DataProtectionError) in try putFreshHome() }
                    }
                }
            }
        }
    }

    /// - Throws: `tooSparse`.
    private func requireRoom(forFilling run: Range<UInt64>) throws(Trouble) {
        let blocks = try certainly { () throws(DataProtectionError) in try file.status().st_blocks }
        let stored = UInt64(blocks) * 512
        let more = UInt64(run.count) * UInt64(state!.layout.chunkSize + ChunkLayout.overhead)
        // Sealed without a commit in between, so within what a crash may leave uncounted.
        guard run.count <= Int(Self.sealLimit), roomOnFileSystem(of: file.descriptor) ?? .max >= more else {
            throw .certain(.tooSparse(file.path, stored: stored, needed: stored + more))
        }
    }

    /// Growth that would reach the area empties it first: nothing is written at home at or beyond a redo offset in force.
    private func makeRoom(forCount count: UInt64) throws(Trouble) {
        guard state!.hasArea, state!.layout.home(count) > state!.redoOffset else { return }
        try certainly { () throws(DataProtectionError) in
            try dying { () throws(DataProtectionError) in try empty(keys: nil) }
        }
    }
}

extension WipedBuffer {
    /// The first `count` bytes.
    package func prefix(_ count: Int) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(rebasing: bytes[..<count])
    }
}
