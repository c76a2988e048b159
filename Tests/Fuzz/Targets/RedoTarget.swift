import TestVectors

@testable import DataProtection
@testable import ProtectionFormat
@testable import ProtectionKeys

/// The records behind a file whose writer was killed, as the reader of the file follows them. FORMAT.md §3.6, §3.7 rule 4.
///
///     1  bit 0: chunks of 64 KiB; bit 1: the seals of content records are looked at
///     then, for each record:
///     1  bit 0: the first 40 bytes are left out, and made; bit 1: its content record is sealed anew; bit 2: its check is made good
///     2  length of what follows
///     …  the record, without its check if that is made
extension FuzzTarget {
    static let redoRecords = FuzzTarget("redo-records", longest: 8192, seeds: RedoTarget.seeds, run: RedoTarget.run)
}

private enum RedoTarget {
    static func seeds() throws -> [[UInt8]] {
        try FormatVector.all(in: "redo-record").flatMap { vector in
            let bytes = try vector.bytes("bytes")
            guard bytes.count < 6000, bytes.count > 72 else { return [] as [[UInt8]] }
            let body = Array(bytes[40..<bytes.count - 32])
            let record = [7, UInt8(body.count & 255), UInt8(body.count >> 8)] + body
            var (next, twice) = (record, record)
            next[3 + 8] &+= 1  // the counter of the one behind it
            twice += next
            return [[2] + record, [0] + twice, [0, 4, UInt8(bytes.count & 255), UInt8(bytes.count >> 8)] + bytes]
        }
    }

    static func run(_ bytes: [UInt8]) throws {
        var input = Input(bytes)
        let how = input.byte()
        let place = try places[how.has(0) ? 1 : 0].get()
        var area: [UInt8] = []
        while !input.isAtEnd, area.count < 1 << 20 { area += try record(&input, place) }
        let scratch = try Self.scratch.get()
        try scratch.hold([(0, place.head), (4096, place.head), (redoOffset, area)])
        guard let heads = try? HeadPair(reading: scratch.file, isLocked: false) else {
            throw Broken(description: "the heads do not read")
        }
        let kept = FileKeys.Kept(try Known.fileKey().headKey(of: place.prefix.fileID))
        var state = FileState(heads)
        let expected = try follow(area, heads.head, how.has(1) ? kept : nil)
        do throws(Trouble) { try state.scan(scratch.file, headKey: how.has(1) ? kept : nil) } catch {
            _ = error.reported
            return try hold(!expected.isWhole, "records are refused")
        }
        try hold(expected.isWhole && state.recordCount == expected.count, "\(state.recordCount) records")
        try hold(state.areaEnd <= redoOffset + UInt64(area.count), "the area ends behind the file")
        try hold(!(try state.hasMore(in: scratch.file)) || expected.isCut, "more records than were followed")
        for (index, chunk) in state.overlay {
            try hold(chunk.offset + UInt64(chunk.length) <= state.areaEnd, "a chunk behind the area")
            try hold(state.place(of: index) == chunk && !state.isFresh(index), "a chunk at another place")
        }
        if state.overlay[0] == nil {
            try hold(state.place(of: 0).offset == 8192, "the first chunk is not at home")
        }
        let last = state.record.chunkCount
        try hold(state.isFresh(last) == (state.overlay[last] == nil), "a fresh chunk")
    }

    /// The same by the decoders alone.
    private static func follow(
        _ area: [UInt8], _ head: Head, _ key: FileKeys.Kept?
    ) throws -> (count: Int, isWhole: Bool, isCut: Bool) {
        var (previous, count, rest) = (head.content.record, 0, area[...])
        let (epoch, prefix) = (previous.epoch, head.prefix)
        while let header = RedoRecord.header(decoding: Array(rest.prefix(48)), file: prefix.fileID, epoch: epoch) {
            let bytes = Array(rest.prefix(header.length))
            guard bytes.count == header.length, try RedoRecord.isCheckGood(bytes) else { return (count, true, true) }
            let record: RedoRecord
            do throws(FormatError) {
                record = try RedoRecord(
                    decoding: bytes, header: header, layout: prefix.layout, after: previous, redoOffset: redoOffset)
                if let key { try record.content.authenticate(in: prefix, under: key.bytes) }
            } catch {
                return (count, false, false)
            }
            let chunks = record.chunks.map {
                (index: $0.index, sealed: Array(bytes[$0.offset..<$0.offset + $0.length]))
            }
            let again = try RedoRecord.encode(
                file: prefix.fileID, epoch: epoch, content: record.content, chunks: chunks)
            try hold(again.bytes == bytes && again.record.chunks == record.chunks, "a record is written in another way")
            (previous, count, rest) = (record.content.record, count + 1, rest.dropFirst(header.length))
        }
        return (count, true, false)
    }

    private static func record(_ input: inout Input, _ place: Place) throws -> [UInt8] {
        let how = input.byte()
        var bytes = input.take(input.short())
        if how.has(0) {
            var start = RedoRecord.magic + place.prefix.fileID.bytes
            start.append(littleEndian: epoch)
            start.append(littleEndian: UInt64(40 + bytes.count + 32))
            bytes = start + bytes
        }
        if how.has(1), bytes.count >= 48 {
            let length = bytes[44..<48].reversed().reduce(0) { $0 << 8 | Int($1) }
            if length >= 116, length <= bytes.count - 48 {
                let clear = Array(bytes[48..<48 + length - 28])
                let counter = clear[..<8].reversed().reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
                let associated = place.prefix.associatedData(
                    .contentRecord, index: counter, extra: place.prefix.encoded + clear)
                let key = try Known.fileKey().headKey(of: place.prefix.fileID)
                let seal = try emptySeal(under: key, associated: associated)
                bytes.replaceSubrange(48 + length - 28..<48 + length, with: seal)
            }
        }
        return how.has(0) || how.has(2) ? try Known.checked(bytes) : bytes
    }

    /// A file with an area, but for what is in it.
    private struct Place {
        let prefix: Prefix
        let head: [UInt8]
    }

    private static let redoOffset: UInt64 = 1 << 20
    private static let epoch: UInt64 = 5
    private static let scratch = Result { try ScratchFile() }
    private static let places = [ChunkLayout.small, .large].map { layout in Result { try place(layout) } }

    private static func place(_ layout: ChunkLayout) throws -> Place {
        let prefix = Prefix(fileID: try FileID(bytes: [UInt8](repeating: 9, count: 16)), layout: layout)
        let headKey = try Known.fileKey().headKey(of: prefix.fileID)
        var content = ContentRecord(size: 10_000, layout: layout, holes: ChunkRuns(), counter: 4, sealCount: 0)
        (content.redoOffset, content.epoch) = (redoOffset, epoch)
        let name = ClassKeyName(
            keybag: try KeybagUUID(bytes: [UInt8](repeating: 1, count: 16)), protectionClass: .none, generation: 1)
        let wrap = WrapRecord(
            counter: 1, classKey: name, wrapped: WrappedKey(bytes: [UInt8](repeating: 2, count: 40)),
            commitment: [UInt8](repeating: 3, count: 32), origin: .unverified)
        let head = Head(
            prefix: prefix, wrap: wrap, wrapBytes: try wrap.sealed(in: prefix, under: headKey),
            content: try content.sealed(in: prefix, under: headKey), inline: [])
        return Place(prefix: prefix, head: try head.encoded())
    }
}
