import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// What a file contains now, as a handle last saw it: the heads and, while there is one, the redo area.
package struct FileState {
    /// Where a sealed chunk lies in the lower file.
    package struct Place: Hashable {
        package let offset: UInt64
        package let length: Int
    }

    /// Both heads.
    package var heads: HeadPair
    /// The content record of the last redo record in force, else of the head in force.
    package private(set) var content: SealedContent
    /// Sealed chunks that wait in the area to be put in place.
    package private(set) var overlay: [UInt64: Place] = [:]
    /// Where the next record goes.
    package private(set) var areaEnd: UInt64
    /// How many records the area holds.
    package private(set) var recordCount = 0
    /// Whether it holds any.
    package var hasRecords: Bool { recordCount > 0 }

    /// The state that a head says, before its area is read.
    package init(_ heads: HeadPair) {
        self.heads = heads
        content = heads.head.content
        areaEnd = content.record.redoOffset
    }

    /// Where the chunks are.
    package var layout: ChunkLayout { heads.head.prefix.layout }
    /// Size, holes and counters now.
    package var record: ContentRecord { content.record }
    /// Whether the head in force says that there is an area.
    package var hasArea: Bool { redoOffset != 0 }
    /// Where the area begins; 0 without one.
    package var redoOffset: UInt64 { heads.head.content.record.redoOffset }

    /// Whether chunk `index` can be written at home: nothing committed depends on those bytes. FORMAT.md §4.
    package func isFresh(_ index: UInt64) -> Bool {
        (record.isInline || index >= record.chunkCount || record.holes.contains(index)) && overlay[index] == nil
    }

    /// Where committed chunk `index` lies.
    package func place(of index: UInt64) -> Place {
        overlay[index]
            ?? Place(
                offset: layout.home(index),
                length: layout.plainLength(index, size: record.size) + ChunkLayout.overhead)
    }

    /// Reads the records behind those that are known. FORMAT.md §3.6.
    ///
    /// - Parameter headKey: checks each record's content; nil to follow them without any key.
    package mutating func scan(_ file: LowerFile, headKey: FileKeys.Kept?) throws(Trouble) {
        guard hasArea else { return }
        while let (bytes, header) = try nextRecord(in: file) {
            let prefix = heads.head.prefix
            let record: RedoRecord
            do throws(DataProtectionError) {
                record = try withFormat(file.path) { () throws(FormatError) in
                    let record = try RedoRecord(
                        decoding: bytes, header: header, layout: layout, after: content.record, redoOffset: redoOffset)
                    if let headKey { try record.content.authenticate(in: prefix, under: headKey.bytes) }
                    return record
                }
            } catch {
                throw Trouble(error)
            }
            take(record, length: header.length)
        }
    }

    /// Whether a record lies behind those that are known: a look at its header only.
    package func hasMore(in file: LowerFile) throws(DataProtectionError) -> Bool {
        guard hasArea else { return false }
        let bytes = try file.bytes(at: areaEnd, count: RedoRecord.headerLength)
        return RedoRecord.header(decoding: bytes, file: heads.head.prefix.fileID, epoch: epoch) != nil
    }

    /// Takes note of a record that lies at ``areaEnd``.
    package mutating func take(_ record: RedoRecord, length: Int) {
        for chunk in record.chunks {
            overlay[chunk.index] = Place(offset: areaEnd + UInt64(chunk.offset), length: chunk.length)
        }
        content = record.content
        areaEnd += UInt64(length)
        recordCount += 1
    }

    /// The epoch of the area in force.
    package var epoch: UInt64 { heads.head.content.record.epoch }

    private func nextRecord(in file: LowerFile) throws(Trouble) -> (bytes: [UInt8], header: RedoRecord.Header)? {
        do throws(DataProtectionError) {
            let start = try file.bytes(at: areaEnd, count: RedoRecord.headerLength)
            let id = heads.head.prefix.fileID
            guard let header = RedoRecord.header(decoding: start, file: id, epoch: epoch),
                // A crafted length must not make us reserve what is not there.
                try file.length() >= areaEnd + UInt64(header.length)
            else { return nil }
            let bytes = try file.bytes(at: areaEnd, count: header.length)
            let isGood: Bool
            do throws(KeyError) { isGood = try RedoRecord.isCheckGood(bytes) } catch { throw .cryptography(error) }
            guard bytes.count == header.length, isGood else { return nil }
            guard areaEnd - redoOffset + UInt64(header.length) <= RedoRecord.maximumAreaLength else {
                throw .damaged(file.path, .redoRecord, reason: "more records than a writer leaves", offset: nil)
            }
            return (bytes, header)
        } catch {
            throw Trouble(error)
        }
    }
}
