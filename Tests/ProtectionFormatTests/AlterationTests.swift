import TestVectors
import Testing

@testable import ProtectionFormat
@testable import ProtectionKeys

/// Every byte flipped, every length: refused wherever a check or a seal covers it, and never a crash.
@Suite struct AlterationTests {
    /// A record of §3.6 as it comes to its plaintext.
    private static func open(_ bytes: [UInt8], _ vector: FormatVector) throws {
        let record = try RedoVectorTests.decode(bytes, vector)
        let prefix = Prefix(fileID: try vector.fileID(), layout: try vector.layout())
        let fileKey = FileKey(secret: try vector.secret("file key"))
        try record.content.authenticate(in: prefix, under: fileKey.headKey(of: prefix.fileID))
        let chunkKey = try fileKey.chunkKey(of: prefix.fileID)
        for place in record.chunks {
            _ = try openChunk(
                Array(bytes[place.offset..<place.offset + place.length]), index: place.index, in: prefix, chunkKey)
        }
    }

    /// A head as it comes to its plaintext.
    private static func openHead(_ bytes: [UInt8], _ vector: FormatVector) throws {
        let head = try HeadVectorTests.decode(bytes)
        let fileKey = try vector.fileKey(of: head.wrap)
        try head.checkCommitment(of: fileKey)
        let headKey = try fileKey.headKey(of: head.prefix.fileID)
        try head.authenticate(under: headKey)
        if head.content.record.isInline { _ = try openInline(head, headKey) }
    }

    private static let refusals: Set = [
        "damaged head", "damaged wrap record", "damaged wrap", "damaged key commitment", "damaged content record",
        "damaged inline file", "unsupported", "foreign keybag", "key lost", "not ours",
    ]

    @Test func everyFlippedBitOfAHeadMakesItNoGoodHead() throws {
        let bytes = try HeadVector.inline()
        for index in bytes.indices {
            var flipped = bytes
            flipped[index] ^= 1 << (index % 8)
            #expect(try Head.isGood(flipped) == false, "byte \(index)")
            // What a caller without that question would get: an answer, not a crash.
            _ = try? Head(decoding: flipped)
        }
    }

    /// Somebody without keys can make the check anew. All that it covers is covered by a seal or a rule as well.
    @Test(arguments: ["head/inline-5", "head/class-b-under-c", "head/holes-2"])
    func everyFlippedBitUnderANewCheckIsRefused(name: String) throws {
        let vector = try FormatVector.named(name)
        let bytes = try vector.bytes("bytes")
        var layers: [String: Int] = [:]
        for index in 0..<bytes.count - 32 {
            // All bits of the records, one of each of the zeros behind.
            for bit in index < 440 ? Array(0..<8) : [index % 8] {
                var flipped = bytes
                flipped[index] ^= 1 << bit
                let checked = try checkedAnew(flipped)
                let outcome = outcome { try Self.openHead(checked, vector) }
                #expect(Self.refusals.contains(outcome), "byte \(index), bit \(bit): \(outcome)")
                layers[outcome, default: 0] += 1
            }
        }
        // No layer hides behind another one.
        #expect(layers.keys.count >= 8, "\(layers)")
    }

    @Test(arguments: ["head/inline-3584", "head/holes-32"])
    func everyOtherLengthOfAHeadIsRefused(name: String) throws {
        let bytes = try FormatVector.named(name).bytes("bytes")
        for length in Array(0..<bytes.count) + [bytes.count + 1, 2 * bytes.count] {
            let other = Array((bytes + bytes).prefix(length))
            #expect(try Head.isGood(other) == false, "\(length)")
            #expect(throws: FormatError.self, "\(length)") { try Head(decoding: other) }
        }
    }

    @Test func everyFlippedBitOfAKeybagIsRefused() throws {
        let bytes = try FormatVector.named("keybag/recovery-slot").bytes("bytes")
        for index in bytes.indices {
            for bit in 0..<8 {
                var flipped = bytes
                flipped[index] ^= 1 << bit
                #expect(throws: FormatError.self, "byte \(index), bit \(bit)") { try KeybagCopy(decoding: flipped) }
            }
        }
    }

    @Test func everyFlippedBitOfAKeybagUnderANewCheckIsRefused() throws {
        let vector = try FormatVector.named("keybag/recovery-slot")
        let bytes = try vector.bytes("bytes")
        let key = KeybagKey(
            keybag: try KeybagCopy(decoding: bytes).uuid, secret: try vector.secret("keybag key"))
        #expect(try KeybagCopy.isMACGood(bytes, under: key))
        var byMAC = 0
        for index in 0..<bytes.count - 32 {
            for bit in 0..<8 {
                var flipped = bytes
                flipped[index] ^= 1 << bit
                flipped = try checkedAnew(flipped)
                guard (try? KeybagCopy(decoding: flipped)) != nil else { continue }
                #expect(try KeybagCopy.isMACGood(flipped, under: key) == false, "byte \(index), bit \(bit)")
                byMAC += 1
            }
        }
        #expect(byMAC > 4000)
    }

    @Test(arguments: ["keybag/four-keys", "keybag/most-entries"])
    func everyOtherLengthOfAKeybagIsRefused(name: String) throws {
        let bytes = try FormatVector.named(name).bytes("bytes")
        for length in Array(0..<bytes.count) + [bytes.count + 1, 65_536, 65_537] {
            let other = Array(bytes.prefix(length)) + [UInt8](repeating: 0, count: max(0, length - bytes.count))
            #expect(throws: FormatError.self, "\(length)") { try KeybagCopy(decoding: other) }
        }
    }

    @Test func everyFlippedBitOfARedoRecordEndsTheArea() throws {
        let vector = try FormatVector.named("redo-record/with-holes")
        let bytes = try vector.bytes("bytes")
        for index in bytes.indices {
            for bit in 0..<8 {
                var flipped = bytes
                flipped[index] ^= 1 << bit
                let outcome = outcome { [flipped] in try Self.open(flipped, vector) }
                #expect(outcome == "no record", "byte \(index), bit \(bit)")
            }
        }
    }

    @Test func everyFlippedBitOfARedoRecordUnderANewCheckIsRefused() throws {
        let vector = try FormatVector.named("redo-record/with-holes")
        let bytes = try vector.bytes("bytes")
        let refusals: Set = ["no record", "damaged redo record", "damaged content record", "damaged chunk"]
        var found: Set<String> = []
        for index in 0..<bytes.count - 32 {
            for bit in 0..<8 {
                var flipped = bytes
                flipped[index] ^= 1 << bit
                let checked = try checkedAnew(flipped)
                let outcome = outcome { try Self.open(checked, vector) }
                #expect(refusals.contains(outcome), "byte \(index), bit \(bit): \(outcome)")
                found.insert(outcome)
            }
        }
        #expect(found == refusals)
    }

    @Test func everyShorterRedoRecordEndsTheArea() throws {
        let vector = try FormatVector.named("redo-record/with-holes")
        let bytes = try vector.bytes("bytes")
        for length in bytes.indices {
            let cut = Array(bytes[..<length])
            #expect(outcome { try Self.open(cut, vector) } == "no record", "\(length)")
        }
        // More bytes behind it are the next record's business.
        #expect(outcome { try Self.open(bytes + [0], vector) } == "success")
    }

    /// A header that promises more than is there, given to the decoder all the same.
    @Test func decodingACutRedoRecordIsRefused() throws {
        let vector = try FormatVector.named("redo-record/with-holes")
        let bytes = try vector.bytes("bytes")
        let header = try #require(
            RedoRecord.header(decoding: bytes, file: vector.fileID(), epoch: vector.number("epoch")))
        var before = ContentRecord(size: 0, layout: .small, holes: ChunkRuns(), counter: 4, sealCount: 0)
        before.redoOffset = 61_440
        for length in 0..<bytes.count - 32 {
            let cut = Array(bytes[..<length])
            let outcome = outcome {
                _ = try RedoRecord(
                    decoding: cut, header: header, layout: .small, after: before, redoOffset: before.redoOffset)
            }
            #expect(outcome.hasPrefix("damaged "), "\(length)")
        }
    }

    @Test func everyFlippedBitAndOtherLengthOfASectorIsRefused() throws {
        let bytes = try FormatVector.named("attempts/one-failure").bytes("bytes")
        for index in bytes.indices {
            for bit in 0..<8 {
                var flipped = bytes
                flipped[index] ^= 1 << bit
                #expect(throws: FormatError.self) { try AttemptRecord(decoding: flipped) }
            }
        }
        for length in Array(0..<512) + [513, 1024] {
            #expect(throws: FormatError.self) { try AttemptRecord(decoding: Array((bytes + bytes).prefix(length))) }
        }
    }

    @Test func everyOtherLengthOfATransitionSaysNothing() throws {
        let bytes = try FormatVector.named("transition/armed").bytes("bytes")
        for length in Array(0..<64) + [65, 128] {
            #expect(TransitionRecord(decoding: Array((bytes + bytes).prefix(length))) == TransitionRecord())
        }
    }

    @Test func everyFlippedBitAndOtherLengthOfAnEventSaysNothing() throws {
        let bytes = try FormatVector.named("event/armed").bytes("bytes")
        for index in bytes.indices {
            for bit in 0..<8 {
                var flipped = bytes
                flipped[index] ^= 1 << bit
                #expect(EventRecord(decoding: flipped) == nil)
            }
        }
        for length in Array(0..<96) + [97, 192] {
            #expect(EventRecord(decoding: Array((bytes + bytes).prefix(length))) == nil)
        }
    }

    @Test func everyOtherLengthOfAPayloadIsNone() throws {
        let bytes = try FormatVector.named("ring-payload/most-entries").bytes("bytes")
        for length in 0..<bytes.count {
            let isNone = bytes.withUnsafeBytes { all in
                RingPayload.loadedAt(UnsafeRawBufferPointer(rebasing: all[..<length])) == nil
            }
            #expect(isNone, "\(length)")
        }
    }
}
