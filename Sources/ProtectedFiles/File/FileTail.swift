import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import ProtectionKeys

/// What lies behind the end of a file, judged by somebody who may discard only what a writer of ours has left there.
///
/// A writer that died leaves sealed chunks that no commit names, redo records, zeros, and the rest of a file that was longer. Whatever
/// else lies behind a file that was closed was put there by another program: `echo line >>file` does that.
///
/// Behind a file whose writer was killed there can be pieces of chunks and records that nothing identifies. A kill must not leave
/// files beside the file, so there only a tail that ends in 16 bytes of text counts as appended. Two limits remain: bytes that another
/// program appends while a writer has the file open can be overwritten, and a record that a crash cut off hides bytes that were
/// appended directly behind it. What is done with foreign bytes: ``KeptBeside``.
package struct FileTail {
    /// Where bytes begin that no writer of ours leaves; nil: there are none.
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
    ///   - keys: open chunks that no commit names; without them, anything in the place of a chunk that does not end in text may be one.
    package init(
        of state: FileState, in file: LowerFile, length: UInt64, _ keys: FileKeys?
    ) throws(DataProtectionError) {
        let start = try withKeys { () throws(KeyError) in try state.ownEnd() }
        var place = start
        /// Where the zeros begin that have just been passed.
        var zeros: UInt64?
        while place < length {
            if let end = try state.endOfOwnChunk(at: place, in: file, length: length, keys) {
                (place, zeros) = (end, nil)
            } else if let record = try state.strayRecord(at: place, in: file, length: length) {
                if record.isLater { laterRecords += 1 }
                if state.hasArea, place == start { tornRecords = length - place }
                (place, zeros) = (place + min(record.length, length - place), nil)
            } else {
                let limit = min(state.layout.nextHome(after: place), length)
                let next = try file.firstNonzero(from: place, to: limit, length: length)
                if next == place {
                    let isWhole = try state.isClosed() && (place == start || zeros == start)
                    // Without a key, nothing shows that a whole chunk is one. Nothing shows it of a chunk that a kill has cut, but
                    // the gap before it: appending leaves no gap.
                    let mayBeOurs = !isWhole || state.layout.isHome(place) && (keys == nil || place != start)
                    if mayBeOurs, try !file.endsInText(behind: place) {
                        if state.hasArea { tornRecords = max(tornRecords, length - place) }
                        return
                    }
                    // Zeros at the end of a closed file were appended too; others are ours.
                    foreign = zeros == state.extent ? zeros : place
                    return
                }
                zeros = zeros ?? place
                place = next
            }
        }
    }
}

extension FileState {
    /// Behind which nothing of what this state was made from, or replaced, can lie.
    fileprivate func ownEnd() throws(KeyError) -> UInt64 {
        if hasArea { return areaEnd }
        // The second head of a file of one head, torn or altered: no appended bytes.
        if try heads.damagedSlot() != nil { return max(extent, UInt64(2 * Head.length)) }
        // What the state before it had beyond this one's end was to be cut.
        guard try heads.otherSlot() == .older, let older = Head.Records(in: heads.slots[heads.target]).content else {
            return extent
        }
        return max(extent, layout.extent(of: older, generation: heads.head.generation), older.redoOffset)
    }

    /// Where a sealed chunk of this file ends that lies in its place at `place`.
    fileprivate func endOfOwnChunk(
        at place: UInt64, in file: LowerFile, length: UInt64, _ keys: FileKeys?
    ) throws(DataProtectionError) -> UInt64? {
        let step = UInt64(layout.chunkSize + ChunkLayout.overhead)
        guard let keys, layout.isHome(place) else { return nil }
        // The last one of all may be shorter.
        let count = Int(min(step, length - place))
        guard count > ChunkLayout.overhead else { return nil }
        let sealed = try file.bytes(at: place, count: count)
        let text = WipedBuffer(count: count - ChunkLayout.overhead)
        do throws(KeyError) {
            try sealed.lendBytes { sealed throws(KeyError) in
                try keys.open(chunk: (place - layout.home(0)) / step, sealed, into: text.prefix(text.count))
            }
        } catch .authenticationFailed {
            return nil
        } catch {
            throw .cryptography(error)
        }
        return place + UInt64(count)
    }

    /// A redo record of this file, of whatever area, whole or not.
    fileprivate func strayRecord(
        at place: UInt64, in file: LowerFile, length: UInt64
    ) throws(DataProtectionError) -> (length: UInt64, isLater: Bool)? {
        let start = try file.bytes(at: place, count: RedoRecord.headerLength)
        guard let header = RedoRecord.header(decoding: start, file: heads.head.prefix.fileID) else { return nil }
        let bytes = UInt64(header.length)
        guard bytes <= length - place else { return (bytes, false) }
        let stored = try file.bytes(at: place, count: header.length)
        let isGood = try withKeys { () throws(KeyError) in try RedoRecord.isCheckGood(stored) }
        let counter = RedoRecord.contentCounter(decoding: stored)
        return (bytes, isGood && counter.map { $0 > record.counter } ?? false)
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

extension LowerFile {
    /// Whether the last 16 bytes of the file are text, and lie behind `place`: sealed bytes are text in one of millions of cases.
    package func endsInText(behind place: UInt64) throws(DataProtectionError) -> Bool {
        let count = 16
        let length = try length()
        guard length >= place + UInt64(count) else { return false }
        // The first character may be cut.
        let bytes = try bytes(at: length - UInt64(count), count: count)
        let text = bytes.drop { $0 & 0xC0 == 0x80 }
        guard text.count > count - 4, let decoded = String(validating: text, as: UTF8.self) else { return false }
        return decoded.unicodeScalars.allSatisfy {
            $0.value >= 0x20 && $0.value != 0x7F || "\t\n\r".unicodeScalars.contains($0)
        }
    }

    /// The place of the first byte that is not zero, from `place` up to `limit`; `limit` or a later place if there is none.
    ///
    /// - Parameter length: of the file. A hole may be much longer than anything that is worth reading.
    fileprivate func firstNonzero(
        from place: UInt64, to limit: UInt64, length: UInt64
    ) throws(DataProtectionError) -> UInt64 {
        guard let data = try nextData(in: place..<length) else { return length }
        guard data.lowerBound < limit else { return data.lowerBound }
        let bytes = try bytes(at: data.lowerBound, count: Int(limit - data.lowerBound))
        return bytes.firstIndex { $0 != 0 }.map { data.lowerBound + UInt64($0) } ?? limit
    }
}
