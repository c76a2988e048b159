import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys

/// Looking at everything without changing anything: FORMAT.md §3.7, "what a verifier answers".
extension OpenFile {
    /// Opens every stored chunk, at most 1 MiB at a time.
    ///
    /// - Returns: false if `goOn` said so.
    package func verifyChunks(
        noting result: inout FileVerification, _ goOn: (Int64) -> Bool
    ) throws(DataProtectionError) -> Bool {
        let text = WipedBuffer(piecesOf: try file.length())
        var next: UInt64? = 0
        while let first = next {
            let done: UInt64
            do throws(DataProtectionError) {
                (next, done) = try verifyRun(from: first, through: text)
            } catch {
                // The chunks before it have been opened.
                guard case .damaged(_, .chunk, _, let offset?) = error, let state = content.view?.state
                else { throw error }
                let index = state.layout.index(of: UInt64(offset))
                let length = state.layout.plainLength(index, size: state.record.size)
                let stored = state.place(of: index)
                let bytes = try file.bytes(at: stored.offset, count: stored.length)
                result.add(damagedChunk: offset..<offset + Int64(length), isOverwritten: bytes.areUnencrypted)
                (next, done) = (index + 1, state.plainEnd(of: index + 1))
            }
            guard goOn(Int64(done)) else { return false }
        }
        return true
    }

    /// Opens the next stored chunks from `index` on.
    ///
    /// - Returns: the first chunk that was not looked at, nil at the end; and how many plaintext bytes lie before it.
    private func verifyRun(
        from index: UInt64, through text: WipedBuffer
    ) throws(DataProtectionError) -> (next: UInt64?, done: UInt64) {
        try operate(.read) { view, keys throws(Trouble) in
            let state = view.state
            if state.record.isInline {
                _ = try view.inlineText(keys)
                return (nil, state.record.size)
            }
            guard let run = state.record.holes.runOutside(from: index, count: state.record.chunkCount) else {
                return (nil, state.record.size)
            }
            let chunkSize = UInt64(state.layout.chunkSize)
            let end = min(run.upperBound, run.lowerBound + UInt64(text.count) / chunkSize)
            let length = min(end * chunkSize, state.record.size) - run.lowerBound * chunkSize
            _ = try view.read(into: text.prefix(Int(length)), at: run.lowerBound * chunkSize, keys)
            return (end, state.plainEnd(of: end))
        }
    }

    /// Judges heads, area and length as they are in one moment, in which no writer commits.
    ///
    /// - Returns: what is found, and whether somebody has the file open for writing.
    package func outline() throws(DataProtectionError) -> (findings: [FileVerification.Finding], isBeingWritten: Bool) {
        try operateLocked(.read) { view, keys throws(Trouble) in
            try certainly { () throws(DataProtectionError) in
                let state = view.state
                // A writer begins and ends under the slot lock: what it left open is its own.
                let isWritten = try file.isLockedElsewhere(Self.writerLock)
                let length = try file.length()
                let tail = isWritten ? FileTail() : try FileTail(of: state, in: file, length: length, keys)
                let heads = try state.heads.findings(tail)
                return (heads + state.findings(tail, length: length, beside: heads), isWritten)
            }
        }
    }

    /// What is found in heads, records and length of a file that nobody has open for writing. One that was closed takes no lock, and no
    /// key if this handle has read its heads.
    package func findings() throws(DataProtectionError) -> [FileVerification.Finding] {
        let state = try knownState(.read)
        if content.view?.isWriters == true { return [] }
        // Should somebody begin to write now, the length is another one, or what was seen is right.
        if try file.length() == state.extent, try state.isClosed() { return [] }
        let outline = try outline()
        return outline.isBeingWritten ? [] : outline.findings
    }
}

extension HeadPair {
    /// What is found in the slot not in force.
    fileprivate func findings(_ tail: FileTail) throws(DataProtectionError) -> [FileVerification.Finding] {
        let (slot, damaged) = try withKeys { () throws(KeyError) in (try otherSlot(), try damagedSlot()) }
        if damaged == .mayBeNewer { return [.commitsUnreachable(head: target, recordCount: tail.laterRecords)] }
        switch slot {
        case .absent, .equal: return []
        case .older: return [hasStaleWrap ? .oldClassLeft(older: target) : .headsUnequal(older: target)]
        case .torn: return [.headDamaged(index: target)]
        }
    }
}

extension FileState {
    /// What is found behind the end.
    ///
    /// - Parameter heads: what is found in the heads. What unreachable commits have left is no excess.
    fileprivate func findings(
        _ tail: FileTail, length: UInt64, beside heads: [FileVerification.Finding]
    ) -> [FileVerification.Finding] {
        let foreign = length - (tail.foreign ?? length)
        if hasArea {
            let isTorn = tail.tornRecords > 0
            let end = isTorn ? length : length - foreign
            return [.redoArea(byteCount: end - min(end, redoOffset))]
                + (isTorn ? [.recordsTorn(byteCount: tail.tornRecords)] : [])
                + (foreign > 0 && !isTorn ? [.appended(byteCount: foreign)] : [])
        }
        if length < extent { return [.missing(byteCount: extent - length)] }
        let isUnreachable = heads.contains { if case .commitsUnreachable = $0 { true } else { false } }
        let excess = isUnreachable ? 0 : length - foreign - extent
        return (excess > 0 ? [.excess(byteCount: excess)] : []) + (foreign > 0 ? [.appended(byteCount: foreign)] : [])
    }
}

extension HeadPair {
    /// What lies in the slot that is not in force.
    package enum OtherSlot: Hashable {
        /// Head 1 was never written.
        case absent
        case equal, older, torn
    }

    /// Judges the slot not in force. Called under the slot lock, or what looks torn may be a commit in progress.
    package func otherSlot() throws(KeyError) -> OtherSlot {
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
    package var extent: UInt64 { layout.extent(of: record, generation: heads.head.generation) }

    /// How many plaintext bytes lie before chunk `index`.
    fileprivate func plainEnd(of index: UInt64) -> UInt64 { min(index * UInt64(layout.chunkSize), record.size) }

    /// Whether the last writer closed the file, as far as heads and records tell.
    package func isClosed() throws(DataProtectionError) -> Bool {
        let slot = try withKeys { () throws(KeyError) in try heads.otherSlot() }
        return !hasArea && (slot == .equal || slot == .absent)
    }
}

extension [UInt8] {
    /// Whether they cannot be ciphertext, in which every byte is about as frequent as any other one. Bytes that are all zero were lost, and
    /// not written.
    fileprivate var areUnencrypted: Bool {
        var counts = [Int](repeating: 0, count: 256)
        for byte in self { counts[Int(byte)] += 1 }
        // Four times what is expected; in few bytes, more than chance ever gives.
        return counts[0] < count && counts.reduce(0, Swift.max) > Swift.max(count / 64, 16)
    }
}
