import ProtectionFormat
import ProtectionKeys

/// Looking at everything without changing anything: FORMAT.md §3.7, last paragraph.
extension OpenFile {
    /// Opens every stored chunk, a MiB at a time.
    ///
    /// - Returns: false if `goOn` said so.
    func verifyChunks(
        noting result: inout FileVerification, _ goOn: (Int64) -> Bool
    ) throws(DataProtectionError) -> Bool {
        let text = WipedBuffer(count: Self.segment)
        var next: UInt64? = 0
        while let first = next {
            do throws(DataProtectionError) {
                next = try verifyRun(from: first, through: text)
            } catch {
                // The chunks before it have been opened.
                guard case .damaged(_, .chunk, _, let offset?) = error, let state else { throw error }
                let index = state.layout.index(of: UInt64(offset))
                let length = state.layout.plainLength(index, size: state.record.size)
                result.add(damagedChunk: offset..<offset + Int64(length))
                next = index + 1
            }
            let done = next.map { $0 * UInt64(state!.layout.chunkSize) } ?? state!.record.size
            guard goOn(Int64(min(done, state!.record.size))) else { return false }
        }
        return true
    }

    /// Opens the next stored chunks from `index` on.
    ///
    /// - Returns: the first chunk that was not looked at; nil at the end.
    private func verifyRun(
        from index: UInt64, through text: WipedBuffer
    ) throws(DataProtectionError) -> UInt64? {
        try operate(.read) { state, keys throws(Trouble) in
            if state.record.isInline {
                _ = try inlineText(state, keys)
                return nil
            }
            guard let run = state.record.holes.runOutside(from: index, count: state.record.chunkCount) else {
                return nil
            }
            let chunkSize = UInt64(state.layout.chunkSize)
            let end = min(run.upperBound, run.lowerBound + UInt64(text.count) / chunkSize)
            let length = min(end * chunkSize, state.record.size) - run.lowerBound * chunkSize
            let view = ChunkView(file: file, state: state, pending: nil, memory: memory)
            try view.read(
                UnsafeMutableRawBufferPointer(rebasing: text.bytes[..<Int(length)]), at: run.lowerBound * chunkSize,
                keys)
            return end
        }
    }

    /// Judges heads, area and length as they are in one moment, in which no writer commits.
    func verifyOutline(noting result: inout FileVerification) throws(DataProtectionError) {
        let outline = try file.withByteLock(Self.slotLock, .shared) { () throws(DataProtectionError) in
            do throws(Trouble) {
                var state = FileState(try HeadPair(reading: file, isLocked: true))
                try state.scan(file, headKey: nil)
                return try certainly { () throws(DataProtectionError) in
                    // A writer begins and ends under the slot lock: what it left open is its own.
                    (state: state, length: try file.length(), isWritten: try file.isLockedElsewhere(Self.writerLock))
                }
            } catch {
                throw error.reported
            }
        }
        result.isBeingWritten = outline.isWritten
        let heads = outline.state.heads
        switch try withKeys({ () throws(KeyError) in try heads.otherSlot() }) {
        case .absent, .equal: break
        case .older:
            result.findings.append(
                heads.hasStaleWrap ? .oldClassLeft(older: heads.target) : .headsUnequal(older: heads.target))
        case .torn: result.findings.append(.headDamaged(index: heads.target))
        }
        if outline.state.hasArea {
            result.findings.append(.redoArea(byteCount: outline.length - min(outline.length, outline.state.redoOffset)))
            return
        }
        let extent = outline.state.extent
        if outline.length > extent { result.findings.append(.excess(byteCount: outline.length - extent)) }
        if outline.length < extent { result.findings.append(.missing(byteCount: extent - outline.length)) }
    }
}

extension HeadPair {
    /// What lies in the slot that is not in force.
    enum OtherSlot: Hashable {
        /// Head 1 was never written.
        case absent
        case equal, older, torn
    }

    /// Judges the slot not in force. Called under the slot lock, or what looks torn may be a commit in progress.
    func otherSlot() throws(KeyError) -> OtherSlot {
        let other = slots[target]
        if other == slots[inForce] { return .equal }
        if target == 1, head.generation == 1 {
            // Behind an inline file of one head there is nothing; bytes there lie beyond its extent.
            return head.content.record.isInline || other.allSatisfy { $0 == 0 } ? .absent : .torn
        }
        return try Head.isGood(other) ? .older : .torn
    }
}

extension FileState {
    /// The length that the file has once it is cleanly closed, in bytes.
    var extent: UInt64 { layout.extent(of: record, generation: heads.head.generation) }
}
