import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import ProtectionKeys

/// The bytes behind the end of a file. Only what a writer of ours has left there may be discarded.
///
/// A writer that died leaves sealed chunks that no commit names, redo records, zeros, and the rest of a file that was longer. Another program wrote
/// anything else: `echo line >>file` does that.
///
/// No writer writes above bytes of another program (FORMAT.md §4 rule 16). So everything below a chunk or a record that is proved to be
/// ours is ours, torn or not. What lies behind the last of these, and is not zero, is foreign. A power cut, or a kill in the middle of
/// the write that made the file longer, can leave a piece of a chunk there. It is taken for foreign too, because nothing can prove the
/// opposite. What is done with foreign bytes: ``KeptBeside``.
package struct FileTail {
    /// Where bytes begin that no writer of ours can answer for; nil: there are none.
    package private(set) var foreign: UInt64?
    /// Whole records of commits that are later than the state in force, and that no head leads to. While both heads are good, these are
    /// of a commit that a crash has kept from being acknowledged.
    package private(set) var laterRecords = 0
    /// Bytes of a record in the area in force that is torn or altered, and of all that lies behind it.
    package private(set) var tornRecords: UInt64 = 0

    /// Nothing is known of it, or nothing is there.
    package init() {}

    /// Called under the slot lock, while nobody writes.
    ///
    /// - Parameters:
    ///   - length: of the file, in bytes.
    ///   - keys: open chunks that no commit names; without them, such chunks are foreign unless a record lies behind them.
    package init(
        of state: FileState, in file: LowerFile, length: UInt64, _ keys: FileKeys?
    ) throws(DataProtectionError) {
        let start = try withKeys { () throws(KeyError) in try state.ownEnd() }
        /// Behind the last thing that is ours.
        var own = start
        var place = start
        while place < length {
            if let end = try state.endOfOwnChunk(at: place, in: file, length: length, keys) {
                (own, place, foreign) = (end, end, nil)
            } else if let record = try state.wholeRecord(at: place, in: file, length: length) {
                if record.counter.map({ $0 > state.record.counter }) ?? false { laterRecords += 1 }
                (own, place, foreign) = (record.end, record.end, nil)
            } else {
                let (nonzero, next) = try state.firstNonzero(from: place, in: file, length: length)
                if let nonzero {
                    let isInArea = state.hasArea && own == start && nonzero >= state.areaEnd
                    if isInArea { tornRecords = max(tornRecords, length - nonzero) }
                    foreign = foreign ?? nonzero
                }
                place = next
            }
        }
        // Behind a chunk that was to be the last one, and may have any length.
        if let found = foreign,
            let end = try state.endOfShortChunk(around: found, notBefore: own, in: file, length: length, keys)
        {
            (own, place, foreign) = (end, end, nil)
            while foreign == nil, place < length {
                (foreign, place) = try state.firstNonzero(from: place, in: file, length: length)
            }
        }
        // Zeros at the end of a closed file were appended too; others are ours.
        if foreign != nil, own == state.extent, try state.isClosed() { foreign = own }
    }
}

extension FileState {
    /// Below which nothing but this state lies.
    fileprivate func ownEnd() throws(KeyError) -> UInt64 {
        if hasRecords { return areaEnd }
        // The second head of a file of one head, torn or altered: no appended bytes.
        return try heads.damagedSlot() == nil ? extent : max(extent, UInt64(2 * Head.length))
    }

    /// Where a sealed chunk of this file ends that lies in its place at `place`.
    fileprivate func endOfOwnChunk(
        at place: UInt64, in file: LowerFile, length: UInt64, _ keys: FileKeys?
    ) throws(DataProtectionError) -> UInt64? {
        let step = UInt64(layout.chunkSize + ChunkLayout.overhead)
        guard let keys, layout.isHome(place) else { return nil }
        // The last one of all may be shorter.
        let sealed = try file.bytes(at: place, count: Int(min(step, length - place)))
        guard sealed.count > ChunkLayout.overhead, !sealed.isZero(upTo: sealed.count) else { return nil }
        let text = WipedBuffer(count: sealed.count - ChunkLayout.overhead)
        return try sealed.lendBytes { sealed throws(DataProtectionError) in
            try keys.opens((place - layout.home(0)) / step, sealed, into: text) ? place + UInt64(sealed.count) : nil
        }
    }

    /// The same of a chunk that is shorter than its place, with other bytes behind it: one that was to be the last.
    ///
    /// All lengths are tried. That takes milliseconds for small chunks, and too long for large ones.
    /// - Parameter found: the first byte that is not known to be ours.
    fileprivate func endOfShortChunk(
        around found: UInt64, notBefore own: UInt64, in file: LowerFile, length: UInt64, _ keys: FileKeys?
    ) throws(DataProtectionError) -> UInt64? {
        let step = UInt64(layout.chunkSize + ChunkLayout.overhead)
        guard let keys, layout == .small, found >= layout.home(0) else { return nil }
        let index = (found - layout.home(0)) / step
        let place = layout.home(index)
        guard place >= own else { return nil }
        let sealed = try file.bytes(at: place, count: Int(min(step, length - place)))
        let text = WipedBuffer(count: sealed.count)
        return try sealed.lendBytes { sealed throws(DataProtectionError) in
            for count in ChunkLayout.overhead + 1..<max(sealed.count, ChunkLayout.overhead + 1) {
                let part = UnsafeRawBufferPointer(rebasing: sealed[..<count])
                if try keys.opens(index, part, into: text) { return place + UInt64(count) }
            }
            return nil
        }
    }

    /// A redo record of this file, of whatever area or none, with a good check: its end, and the content counter in it.
    fileprivate func wholeRecord(
        at place: UInt64, in file: LowerFile, length: UInt64
    ) throws(DataProtectionError) -> (end: UInt64, counter: UInt64?)? {
        let start = try file.bytes(at: place, count: RedoRecord.headerLength)
        guard let header = RedoRecord.header(decoding: start, file: heads.head.prefix.fileID),
            UInt64(header.length) <= length - place
        else { return nil }
        let stored = try file.bytes(at: place, count: header.length)
        guard stored.count == header.length,
            try withKeys({ () throws(KeyError) in try RedoRecord.isCheckGood(stored) })
        else { return nil }
        return (place + UInt64(header.length), RedoRecord.contentCounter(decoding: stored))
    }

    /// The next place behind `place` where something of ours can begin, the home of a chunk or the first bytes of a record, and the first byte
    /// before it that is not zero; nil if there is none.
    fileprivate func firstNonzero(
        from place: UInt64, in file: LowerFile, length: UInt64
    ) throws(DataProtectionError) -> (nonzero: UInt64?, next: UInt64) {
        let limit = min(layout.nextHome(after: place), length)
        // A hole may be much longer than anything that is worth reading.
        guard let data = try file.nextData(in: place..<length) else { return (nil, length) }
        let start = data.lowerBound
        guard start < limit else { return (nil, start) }
        let mark = RedoRecord.start(in: heads.head.prefix.fileID)
        let bytes = try file.bytes(at: start, count: Int(min(limit - start + UInt64(mark.count - 1), length - start)))
        // What begins at `place` itself has been looked at.
        let next = bytes.firstPlace(of: mark, from: start == place ? 1 : 0).map { start + UInt64($0) } ?? limit
        let count = min(Int(next - start), bytes.count)
        guard !bytes.isZero(upTo: count) else { return (nil, next) }
        return (bytes.prefix(count).firstIndex { $0 != 0 }.map { start + UInt64($0) }, next)
    }
}

extension FileKeys {
    /// Whether these bytes are chunk `index`, whole.
    fileprivate func opens(
        _ index: UInt64, _ sealed: UnsafeRawBufferPointer, into text: WipedBuffer
    ) throws(DataProtectionError) -> Bool {
        do throws(KeyError) {
            try open(chunk: index, sealed, into: text.prefix(sealed.count - ChunkLayout.overhead))
            return true
        } catch .authenticationFailed {
            return false
        } catch {
            throw .cryptography(error)
        }
    }
}

extension [UInt8] {
    /// Whether the first `count` bytes are all zero. By memcmp(3): a tail can be long.
    fileprivate func isZero(upTo count: Int) -> Bool {
        withUnsafeBytes { bytes in
            guard count > 0, let start = bytes.baseAddress else { return true }
            return bytes[0] == 0 && memcmp(start, start + 1, count - 1) == 0
        }
    }

    /// Where `other`, which is not empty, lies in these bytes for the first time from `start` on.
    fileprivate func firstPlace(of other: [UInt8], from start: Int) -> Int? {
        withUnsafeBytes { bytes in
            guard let begin = bytes.baseAddress else { return nil }
            var place = start
            while bytes.count - other.count >= place,
                let found = memchr(begin + place, Int32(other[0]), bytes.count - other.count + 1 - place)
            {
                place = UnsafeRawPointer(found) - begin
                if memcmp(found, other, other.count) == 0 { return place }
                place += 1
            }
            return nil
        }
    }
}

extension ChunkLayout {
    /// Whether a chunk begins at `place`, in bytes of the stored file.
    fileprivate func isHome(_ place: UInt64) -> Bool {
        place >= home(0) && (place - home(0)) % UInt64(chunkSize + Self.overhead) == 0
    }

    /// The first place of a chunk behind `place`, both in bytes of the stored file.
    fileprivate func nextHome(after place: UInt64) -> UInt64 {
        guard place >= home(0) else { return home(0) }
        return home((place - home(0)) / UInt64(chunkSize + Self.overhead) + 1)
    }
}
