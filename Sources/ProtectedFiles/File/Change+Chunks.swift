import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import ProtectionKeys

/// What a write and a truncation do to the chunks of a file.
extension Change {
    /// Writes all of `part`, which is not empty, at plaintext `offset`.
    mutating func write(_ part: UnsafeRawBufferPointer, at offset: UInt64) throws(DataProtectionError) {
        let end = offset + UInt64(part.count)
        if view.isInline {
            if max(pending.size, end) <= UInt64(ChunkLayout.maximumInline) {
                return try writeInline(part, at: Int(offset))
            }
            try leaveHead()
        }
        let layout = state.layout
        let touched = layout.index(of: offset)..<layout.index(of: end - 1) + 1
        let size = max(pending.size, end)
        if size > pending.size { try extend(to: size, touching: touched) }
        var index = touched.lowerBound
        while index < touched.upperBound {
            let whole = wholeFreshRun(from: index, below: touched.upperBound, part, offset, size)
            if whole.count >= 4 {
                try sealHome(whole, part, offset, size)
                index = whole.upperBound
            } else {
                try patch(index, part, offset, size)
                index += 1
            }
        }
        pending.size = max(pending.size, size)
    }

    /// Makes the file `size` bytes long: cut, or continued with zeros.
    mutating func truncate(to size: UInt64) throws(DataProtectionError) {
        if view.isInline {
            if size <= UInt64(ChunkLayout.maximumInline) { return try resizeInline(to: size) }
            try leaveHead()
        }
        let old = pending.size
        if size < old { try shrink(to: size) }
        if size > old { try extend(to: size, touching: 0..<0) }
        pending.size = size
    }

    /// Continues with zeros up to `size`, but for the chunks in `touched`, which the caller writes. Leaves the size to it.
    private mutating func extend(to size: UInt64, touching touched: Range<UInt64>) throws(DataProtectionError) {
        let layout = state.layout
        try commitLargeCut()
        let old = pending.size
        let oldCount = layout.chunkCount(size: old)
        let count = layout.chunkCount(size: size)
        try makeRoom(forCount: count)
        let last = oldCount == 0 ? 0 : oldCount - 1
        let isPartial = old % UInt64(layout.chunkSize) != 0 && !pending.holes.contains(last)
        if isPartial, !touched.contains(last) {
            // A partial last chunk is sealed again at its new length.
            let text = WipedBuffer(count: layout.plainLength(last, size: size))
            try open(last, into: text.prefix(layout.plainLength(last, size: old)))
            try seal(last, text)
        }
        pending.holes.insert(oldCount..<max(oldCount, count))
    }

    private mutating func shrink(to size: UInt64) throws(DataProtectionError) {
        let layout = state.layout
        let count = layout.chunkCount(size: size)
        if size % UInt64(layout.chunkSize) != 0, !pending.holes.contains(count - 1) {
            let old = WipedBuffer(count: layout.plainLength(count - 1, size: pending.size))
            try open(count - 1, into: old.prefix(old.count))
            let text = WipedBuffer(count: layout.plainLength(count - 1, size: size))
            text.bytes.copyMemory(from: UnsafeRawBufferPointer(rebasing: old.bytes[..<text.count]))
            try seal(count - 1, text)
        }
        pending.cut(toCount: count)
    }

    /// Puts the part of the segment that is in chunk `index` into it.
    private mutating func patch(
        _ index: UInt64, _ part: UnsafeRawBufferPointer, _ offset: UInt64, _ size: UInt64
    ) throws(DataProtectionError) {
        let layout = state.layout
        let start = index * UInt64(layout.chunkSize)
        let length = layout.plainLength(index, size: size)
        let first = Int(max(offset, start) - offset)
        let end = Int(min(offset + UInt64(part.count), start + UInt64(length)) - offset)
        let bytes = UnsafeRawBufferPointer(rebasing: part[first..<end])
        if bytes.count == length { return try seal(index, bytes) }
        let text = WipedBuffer(count: length)
        let oldLength = layout.plainLength(index, size: pending.size)
        if oldLength > 0 { try open(index, into: text.prefix(oldLength)) }
        let within = Int(offset + UInt64(first) - start)
        UnsafeMutableRawBufferPointer(rebasing: text.bytes[within..<within + bytes.count]).copyMemory(from: bytes)
        try seal(index, text)
    }

    // MARK: one chunk

    private func open(_ index: UInt64, into text: UnsafeMutableRawBufferPointer) throws(DataProtectionError) {
        do throws(Trouble) { try view.open(index, into: text, keys) } catch { throw error.reported }
    }

    mutating func seal(_ index: UInt64, _ text: WipedBuffer) throws(DataProtectionError) {
        try seal(index, UnsafeRawBufferPointer(rebasing: text.bytes[..<text.count]))
    }

    private mutating func seal(_ index: UInt64, _ text: UnsafeRawBufferPointer) throws(DataProtectionError) {
        var sealed = [UInt8](repeating: 0, count: text.count + ChunkLayout.overhead)
        let nonce = try withKeys { () throws(KeyError) in try Randomness.bytes(12) }
        try nonce.lendBytes { nonce throws(DataProtectionError) in
            try sealed.lendMutableBytes { sealed throws(DataProtectionError) in
                try keys.seal(chunk: index, text, nonce: nonce, into: sealed)
            }
        }
        writer.sealCount += 1
        pending.put(sealed, at: index, isFresh: state.isFresh(index))
    }

    // MARK: fresh chunks, written at home ahead of the commit

    /// Chunks from `index` on that the segment covers whole and on whose home nothing committed depends.
    private func wholeFreshRun(
        from index: UInt64, below end: UInt64, _ part: UnsafeRawBufferPointer, _ offset: UInt64, _ size: UInt64
    ) -> Range<UInt64> {
        let chunkSize = UInt64(state.layout.chunkSize)
        var next = index
        while next < end, next * chunkSize >= offset, state.isFresh(next),
            min((next + 1) * chunkSize, size) <= offset + UInt64(part.count)
        {
            next += 1
        }
        return index..<next
    }

    private mutating func sealHome(
        _ indexes: Range<UInt64>, _ part: UnsafeRawBufferPointer, _ offset: UInt64, _ size: UInt64
    ) throws(DataProtectionError) {
        let layout = state.layout
        let first = Int(indexes.lowerBound * UInt64(layout.chunkSize) - offset)
        let end = Int(min(indexes.upperBound * UInt64(layout.chunkSize), size) - offset)
        let sealed = try SealedRun(
            UnsafeRawBufferPointer(rebasing: part[first..<end]), from: indexes.lowerBound, layout, keys, memory: memory)
        let start = layout.home(indexes.lowerBound)
        try writer.reach(start + UInt64(sealed.bytes.count))
        // The last one first: ``Writer/reach(_:)``.
        let last = (indexes.count - 1) * (layout.chunkSize + ChunkLayout.overhead)
        try file.write(UnsafeRawBufferPointer(rebasing: sealed.bytes[last...]), at: start + UInt64(last))
        try file.write(UnsafeRawBufferPointer(rebasing: sealed.bytes[..<last]), at: start)
        writer.sealCount += UInt64(indexes.count)
        pending.putAtHome(indexes)
    }

    // MARK: holes

    /// A content record has room for 32 runs: the shortest are sealed as zero chunks.
    mutating func fillSurplusHoles() throws(DataProtectionError) {
        while pending.holes.runs.count > ChunkRuns.maximumRuns, let run = pending.holes.shortest {
            try requireRoom(forFilling: run)
            for index in run {
                try seal(index, WipedBuffer(count: state.layout.plainLength(index, size: pending.size)))
                try relieveMemory()
            }
        }
    }

    /// - Throws: `tooSparse`.
    private func requireRoom(forFilling run: Range<UInt64>) throws(DataProtectionError) {
        let stored = UInt64(try file.status().st_blocks) * 512
        let more = UInt64(run.count) * UInt64(state.layout.chunkSize + ChunkLayout.overhead)
        // Sealed without a commit in between, so within what a crash may leave uncounted.
        guard run.count <= Int(Writer.sealLimit), roomOnFileSystem(of: file.descriptor) ?? .max >= more else {
            throw .because(FileFailure.tooSparse(file.path, stored: stored, needed: stored + more))
        }
    }
}
