import TestEffort
import TestVectors
import Testing

@testable import ProtectionFormat
@testable import ProtectionKeys

/// Random bytes, and good ones altered at random under a new check: never a crash, and what decodes encodes to the same.
@Suite struct GarbageTests {
    private static let inputs = Effort.count(20_000, 1_000_000)

    /// `good` with up to eight bytes changed, mostly to values that fields are likely to have; sometimes cut or longer.
    private static func altered(_ good: [UInt8], _ random: inout SeededGenerator, fixedLength: Bool = false) -> [UInt8]
    {
        var bytes = good
        for _ in 0..<Int.random(in: 0...8, using: &random) {
            let index = Int.random(in: 0..<bytes.count, using: &random)
            bytes[index] =
                Bool.random(using: &random)
                ? [0, 1, 2, 3, 4, 5, 6, 7, 16, 0x7F, 0x80, 0xFF].randomElement(using: &random)!
                : UInt8.random(in: 0...255, using: &random)
        }
        if !fixedLength, Int.random(in: 0..<8, using: &random) == 0 {
            let length = Int.random(in: 0...bytes.count + 64, using: &random)
            bytes = Array(bytes.prefix(length)) + random.bytes(max(0, length - bytes.count))
        }
        return bytes
    }

    @Test func heads() throws {
        var random = Effort.generator("garbage for heads", 1)
        let names = [
            "head/inline-5", "head/class-b-under-c", "head/holes-2", "head/redo-offset", "head/chunked-largest",
        ]
        let good = try names.map { try FormatVector.named($0).bytes("bytes") }
        var decoded = 0
        for _ in 0..<Self.inputs {
            // The records are in the first 440 bytes: alterations behind them would all meet the same rule.
            let start = good.randomElement(using: &random)!
            var bytes = Self.altered(Array(start[..<440]), &random, fixedLength: true) + start[440...]
            if Int.random(in: 0..<16, using: &random) == 0 { bytes = random.bytes(4096) }
            guard let head = try? Head(decoding: bytes) else { continue }
            decoded += 1
            #expect(try head.encoded().dropLast(32) == bytes.dropLast(32))
        }
        #expect(decoded > 1000)
    }

    @Test func headsOfAnyLength() {
        var random = Effort.generator("garbage for heads of any length", 2)
        for _ in 0..<Self.inputs {
            let bytes = Prefix.magic + random.bytes(Int.random(in: 0...600, using: &random))
            #expect(throws: FormatError.self) { try Head(decoding: bytes) }
        }
    }

    @Test func contentRecords() throws {
        var random = Effort.generator("garbage for content records", 3)
        let good = try ["head/inline-5", "head/holes-2", "head/redo-offset", "head/holes-32"].map { name in
            try Head(decoding: FormatVector.named(name).bytes("bytes")).content.bytes
        }
        var decoded = 0
        for _ in 0..<Self.inputs {
            var bytes = Self.altered(good.randomElement(using: &random)!, &random)
            if Int.random(in: 0..<8, using: &random) == 0 {
                bytes = random.bytes(Int.random(in: 0...700, using: &random))
            }
            guard let content = try? SealedContent(decoding: bytes, layout: .small) else { continue }
            decoded += 1
            let clear = content.record.clear
            #expect(bytes.starts(with: clear))
        }
        #expect(decoded > 1000)
    }

    @Test func keybags() throws {
        var random = Effort.generator("garbage for keybags", 4)
        let vector = try FormatVector.named("keybag/reserved-kinds")
        let good = try vector.bytes("bytes")
        let key = KeybagKey(keybag: try KeybagCopy(decoding: good).uuid, secret: try vector.secret("keybag key"))
        var decoded = 0
        for _ in 0..<Self.inputs {
            let bytes = try checkedAnew(Self.altered(good, &random))
            guard let copy = try? KeybagCopy(decoding: bytes) else { continue }
            decoded += 1
            // The MAC is computed, so it can differ; nothing else.
            #expect(try copy.encoded(under: key).dropLast(64) == bytes.dropLast(64))
        }
        #expect(decoded > 1000)
        for _ in 0..<Self.inputs {
            let bytes = Array("PFSKEYBG".utf8) + random.bytes(Int.random(in: 0...400, using: &random))
            #expect(throws: FormatError.self) { try KeybagCopy(decoding: bytes) }
        }
    }

    @Test func redoRecords() throws {
        var random = Effort.generator("garbage for redo records", 5)
        let vector = try FormatVector.named("redo-record/with-holes")
        let good = try vector.bytes("bytes")
        let file = try vector.fileID()
        let epoch = try vector.number("epoch")
        var before = ContentRecord(size: 0, layout: .small, holes: ChunkRuns(), counter: 4, sealCount: 0)
        before.redoOffset = 61_440
        var decoded = 0
        for _ in 0..<Self.inputs {
            // Magic, file id and epoch stay, or there is no record at all.
            let bytes = good[..<32] + Self.altered(Array(good[32...]), &random)
            guard let header = RedoRecord.header(decoding: Array(bytes), file: file, epoch: epoch) else { continue }
            let record = try? RedoRecord(
                decoding: Array(bytes), header: header, layout: .small, after: before, redoOffset: before.redoOffset)
            guard let record, header.length == bytes.count else { continue }
            decoded += 1
            let chunks = record.chunks.map { place in
                (index: place.index, sealed: Array(bytes[place.offset..<place.offset + place.length]))
            }
            let again = try RedoRecord.encode(file: file, epoch: epoch, content: record.content, chunks: chunks)
            #expect(again.bytes.dropLast(32) == bytes.dropLast(32))
        }
        #expect(decoded > 1000)
        for _ in 0..<Self.inputs {
            let bytes = random.bytes(Int.random(in: 0...64, using: &random))
            #expect(RedoRecord.header(decoding: bytes, file: file, epoch: epoch) == nil)
            #expect(try RedoRecord.isCheckGood(bytes) == false)
        }
    }

    @Test func sectors() throws {
        var random = Effort.generator("garbage for sectors", 6)
        let good = try FormatVector.named("attempts/one-failure").bytes("bytes")
        var decoded = 0
        for _ in 0..<Self.inputs {
            let front = Self.altered(Array(good[..<64]), &random, fixedLength: true)
            let bytes = try checkedAnew(front + good[64...])
            if let record = try? AttemptRecord(decoding: bytes) {
                decoded += 1
                #expect(try record.encoded() == bytes)
            }
            let garbage = random.bytes(Int.random(in: 0...520, using: &random))
            #expect(throws: FormatError.self) { try AttemptRecord(decoding: garbage) }
        }
        #expect(decoded > 1000)
    }

    @Test func transitions() throws {
        var random = Effort.generator("garbage for transitions", 7)
        let good = try FormatVector.named("transition/armed").bytes("bytes")
        for _ in 0..<Self.inputs {
            let bytes = Self.altered(good, &random)
            let record = TransitionRecord(decoding: bytes)
            #expect(record == TransitionRecord() || record.encoded == bytes)
            #expect(TransitionRecord(decoding: random.bytes(64)) == TransitionRecord())
        }
    }

    @Test func payloads() throws {
        var random = Effort.generator("garbage for payloads", 8)
        let good = try FormatVector.named("ring-payload/a-and-b").bytes("bytes")
        let name = ClassKeyName(keybag: try .random(), protectionClass: .complete, generation: 1)
        for _ in 0..<Self.inputs {
            var bytes = Self.altered(good, &random)
            if Int.random(in: 0..<4, using: &random) == 0 {
                bytes = random.bytes(Int.random(in: 0...200, using: &random))
            }
            let (key, loadedAt) = bytes.withUnsafeBytes { payload in
                (RingPayload.key(of: name, in: payload).map(Array.init), RingPayload.loadedAt(payload))
            }
            #expect(key == nil || (loadedAt != nil && key == Array(bytes[24..<56]) || key == Array(bytes[64..<96])))
        }
    }
}
