import TestVectors
import Testing

@testable import ProtectionFormat
@testable import ProtectionKeys

/// FORMAT.md §3.6.
@Suite struct RedoVectorTests {
    @Test(arguments: try FormatVector.all(in: "redo-record"))
    func recordComesToWhatIsExpected(vector: FormatVector) throws {
        let bytes = try vector.bytes("bytes")
        let prefix = Prefix(fileID: try vector.fileID(), layout: try vector.layout())
        let fileKey = FileKey(secret: try vector.secret("file key"))
        let headKey = try fileKey.headKey(of: prefix.fileID)
        let chunkKey = try fileKey.chunkKey(of: prefix.fileID)
        let outcome = outcome {
            let record = try Self.decode(bytes, vector)
            try record.content.authenticate(in: prefix, under: headKey)
            var texts: [String: [UInt8]] = [:]
            for place in record.chunks {
                let sealed = Array(bytes[place.offset..<place.offset + place.length])
                texts["chunk \(place.index)"] = try openChunk(sealed, index: place.index, in: prefix, chunkKey)
            }
            guard vector.isSuccess else { return }
            #expect(record.content.record.size == (try vector.number("size")))
            #expect(record.content.record.holes.runs == (try vector.runs("holes")))
            let fields = vector.names.filter { $0.hasPrefix("chunk ") && $0 != "chunk size" }
            #expect(texts.keys.sorted() == fields)
            for field in fields { #expect(texts[field] == (try vector.bytes(field))) }
            let chunks = record.chunks.map { place in
                (index: place.index, sealed: Array(bytes[place.offset..<place.offset + place.length]))
            }
            let again = try RedoRecord.encode(
                file: prefix.fileID, epoch: try vector.number("epoch"), content: record.content, chunks: chunks)
            #expect(again.bytes == bytes)
            #expect(again.record.chunks == record.chunks)
        }
        #expect(outcome == vector.expect)
    }

    /// As a reader finds it at the end of a file.
    static func decode(_ bytes: [UInt8], _ vector: FormatVector) throws -> RedoRecord {
        let header = RedoRecord.header(
            decoding: Array(bytes.prefix(RedoRecord.headerLength)), file: try vector.fileID(),
            epoch: try vector.number("epoch"))
        guard let header, header.length <= bytes.count, try RedoRecord.isCheckGood(Array(bytes[..<header.length]))
        else {
            throw Refusal("no record")
        }
        var before = ContentRecord(
            size: 0, layout: .small, holes: ChunkRuns(), counter: try vector.number("content counter before"),
            sealCount: 0)
        before.redoOffset = try vector.number("redo offset")
        return try RedoRecord(
            decoding: bytes, header: header, layout: try vector.layout(), after: before, redoOffset: before.redoOffset)
    }
}
