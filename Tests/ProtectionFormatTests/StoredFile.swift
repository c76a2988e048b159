import TestVectors
import Testing

@testable import ProtectionFormat
@testable import ProtectionKeys

/// A whole file in memory, read by the rules of FORMAT.md §3.7 with the library's decoders, without the library's I/O.
struct StoredFile {
    let bytes: [UInt8]
    let head: Head
    private let slots: [[UInt8]]
    private let headKey: Held
    private let chunkKey: Held
    private var content: ContentRecord
    private var overlay: [UInt64: Range<Int>] = [:]

    init(_ bytes: [UInt8], _ vector: FormatVector) throws {
        self.bytes = bytes
        slots = [Array(bytes.prefix(Head.length)), Array(bytes.dropFirst(Head.length).prefix(Head.length))]
        head = try Self.headInForce(slots, length: bytes.count)
        let fileKey = try vector.fileKey(of: head.wrap)
        try head.checkCommitment(of: fileKey)
        headKey = Held(try fileKey.headKey(of: head.prefix.fileID))
        chunkKey = Held(try fileKey.chunkKey(of: head.prefix.fileID))
        content = head.content.record
        try head.authenticate(under: headKey.bytes)
        try followArea()
    }

    private static func headInForce(_ slots: [[UInt8]], length: Int) throws -> Head {
        let good = try slots.filter { try Head.isGood($0) }
        guard !good.isEmpty else {
            let isOurs = try Head.looksLikeOurs(start: slots[0], second: Array(slots[1].prefix(8)))
            throw isOurs ? FormatError.damaged(.head, reason: "no good head") : Refusal("not protected")
        }
        let heads = try good.map { try Head(decoding: $0) }
        // What decodes encodes to the same bytes.
        #expect(try heads.map { try $0.encoded() } == good)
        guard heads.allSatisfy({ $0.prefix == heads[0].prefix }) else {
            throw FormatError.damaged(.head, reason: "two")
        }
        let head = heads.count == 2 && heads[1].generation > heads[0].generation ? heads[1] : heads[0]
        guard length >= 8192 || (head.generation == 1 && head.content.record.isInline) else {
            throw FormatError.damaged(.head, reason: "short")
        }
        return head
    }

    private mutating func followArea() throws {
        let (start, epoch) = (head.content.record.redoOffset, head.content.record.epoch)
        guard start != 0 else { return }
        var offset = Int(start)
        while offset < bytes.count {
            let rest = bytes[offset...]
            let header = RedoRecord.header(
                decoding: Array(rest.prefix(RedoRecord.headerLength)), file: head.prefix.fileID, epoch: epoch)
            guard let header, header.length <= rest.count else { return }
            let record = Array(rest.prefix(header.length))
            guard try RedoRecord.isCheckGood(record) else { return }
            let decoded = try RedoRecord(
                decoding: record, header: header, layout: head.prefix.layout, after: content, redoOffset: start)
            try decoded.content.authenticate(in: head.prefix, under: headKey.bytes)
            for chunk in decoded.chunks {
                overlay[chunk.index] = offset + chunk.offset..<offset + chunk.offset + chunk.length
            }
            content = decoded.content.record
            offset += header.length
        }
    }

    /// The plaintext.
    func text() throws -> [UInt8] {
        if content.isInline { return try openInline(head, headKey.bytes) }
        let layout = head.prefix.layout
        var text: [UInt8] = []
        for index in 0..<content.chunkCount {
            let plain = layout.plainLength(index, size: content.size)
            if content.holes.contains(index) {
                text += [UInt8](repeating: 0, count: plain)
                continue
            }
            let home = Int(layout.home(index))
            let place = overlay[index] ?? home..<home + plain + ChunkLayout.overhead
            guard place.count == plain + ChunkLayout.overhead, place.upperBound <= bytes.count else {
                throw FormatError.damaged(.chunk, reason: "length")
            }
            text += try openChunk(Array(bytes[place]), index: index, in: head.prefix, chunkKey.bytes)
        }
        return text
    }

    /// What a verifier asks besides the chunks: equal heads, no area, the length of the extent.
    var isClean: Bool {
        let extent = head.prefix.layout.extent(of: content, generation: head.generation)
        return (head.generation == 1 || slots[0] == slots[1]) && head.content.record.redoOffset == 0
            && extent == UInt64(bytes.count)
    }
}

@Suite struct FileVectorTests {
    @Test(arguments: try FormatVector.all(in: "file"))
    func fileComesToWhatIsExpected(vector: FormatVector) throws {
        let outcome = outcome {
            let file = try StoredFile(try vector.bytes("bytes"), vector)
            let text = try file.text()
            guard vector.isSuccess else { return }
            #expect(text == (try vector.bytes("text")))
            #expect(UInt64(file.head.wrap.classKey.protectionClass.rawValue) == (try vector.number("class")))
            #expect(try vector.origin(of: file.head).words == vector.text("origin"))
            #expect(file.isClean == (try vector.text("clean") == "yes"))
        }
        #expect(outcome == vector.expect)
    }
}
