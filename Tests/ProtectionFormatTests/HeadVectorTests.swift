import TestVectors
import Testing

@testable import ProtectionFormat
@testable import ProtectionKeys

/// FORMAT.md §§3.1 to 3.5: a head, from its bytes to its plaintext.
@Suite struct HeadVectorTests {
    @Test(arguments: try FormatVector.all(in: "head"))
    func headComesToWhatIsExpected(vector: FormatVector) throws {
        let bytes = try vector.bytes("bytes")
        let outcome = outcome {
            let head = try Self.decode(bytes)
            let fileKey = try vector.fileKey(of: head.wrap)
            try head.checkCommitment(of: fileKey)
            let headKey = try fileKey.headKey(of: head.prefix.fileID)
            try head.authenticate(under: headKey)
            let text = head.content.record.isInline ? try openInline(head, headKey) : nil
            if vector.isSuccess { try Self.compare(head, text, with: vector) }
        }
        #expect(outcome == vector.expect)
    }

    static func decode(_ bytes: [UInt8]) throws -> Head {
        guard try Head.isGood(bytes) else {
            let isOurs = try Head.looksLikeOurs(start: bytes, second: [])
            throw isOurs ? FormatError.damaged(.head, reason: "check") : FormatError.notOurs
        }
        return try Head(decoding: bytes)
    }

    private static func compare(_ head: Head, _ text: [UInt8]?, with vector: FormatVector) throws {
        let content = head.content.record
        #expect(head.prefix.fileID == (try vector.fileID()))
        #expect(head.prefix.layout == (try vector.layout()))
        #expect(UInt64(head.wrap.classKey.protectionClass.rawValue) == (try vector.number("class")))
        #expect(head.wrap.classKey.generation == 1)
        #expect(head.wrap.counter == (try vector.number("wrap counter")))
        #expect(try vector.origin(of: head).words == vector.text("origin"))
        #expect(content.counter == (try vector.number("content counter")))
        #expect(head.generation == head.wrap.counter + content.counter)
        #expect(content.size == (try vector.number("size")))
        #expect(content.isInline == vector.has("text"))
        #expect(content.chunkCount == (content.isInline ? 0 : head.prefix.layout.chunkCount(size: content.size)))
        #expect(content.holes.runs == (try vector.runs("holes")))
        #expect(content.redoOffset == (vector.has("redo offset") ? try vector.number("redo offset") : 0))
        #expect(content.epoch == (vector.has("epoch") ? try vector.number("epoch") : 0))
        #expect(content.sealCount == (vector.has("seal count") ? try vector.number("seal count") : 2))
        #expect(text == (vector.has("text") ? try vector.bytes("text") : nil))
    }

    @Test(arguments: try FormatVector.all(in: "head").filter(\.isSuccess))
    func whatDecodesEncodesToTheSameBytes(vector: FormatVector) throws {
        let bytes = try vector.bytes("bytes")
        let head = try Head(decoding: bytes)
        #expect(try head.encoded() == bytes)
        #expect(head.prefix.encoded == Array(bytes[..<64]))
        #expect(head.wrapBytes == Array(bytes[64..<268]))
        #expect(head.wrap.clear == Array(bytes[64..<240]))
        #expect(head.content.record.clear + head.content.bytes.suffix(28) == head.content.bytes)
        let prefix = Prefix(fileID: try vector.fileID(), layout: try vector.layout())
        #expect(prefix.encoded == Array(bytes[..<64]))
    }

    /// What the library seals opens, and only under the right key.
    @Test(arguments: try FormatVector.all(in: "head").filter(\.isSuccess))
    func sealedAnewItOpens(vector: FormatVector) throws {
        let old = try Head(decoding: vector.bytes("bytes"))
        let fileKey = FileKey(secret: try vector.secret("file key"))
        let headKey = try fileKey.headKey(of: old.prefix.fileID)
        let content = try old.content.record.sealed(in: old.prefix, under: headKey)
        #expect(content.record == old.content.record && content.bytes != old.content.bytes)
        let head = old.replacing(wrap: old.wrap, bytes: try old.wrap.sealed(in: old.prefix, under: headKey))
            .replacing(content: content, inline: old.inline)
        let again = try Head(decoding: head.encoded())
        #expect(again == head)
        try again.authenticate(under: headKey)
        let otherKey = try fileKey.chunkKey(of: old.prefix.fileID)
        #expect(outcome { try again.authenticate(under: otherKey) } == "damaged wrap record")
        #expect(outcome { try again.content.authenticate(in: old.prefix, under: otherKey) } == "damaged content record")
    }

    @Test(arguments: try FormatVector.all(in: "wrap"))
    func wrapOpens(vector: FormatVector) throws {
        let protectionClass = try #require(ProtectionClass(rawValue: UInt8(vector.number("class"))))
        let name = ClassKeyName(
            keybag: try vector.keybag(), protectionClass: protectionClass,
            generation: UInt32(try vector.number("generation")))
        let wrapped = WrappedKey(bytes: try vector.bytes("bytes"))
        let key: FileKey
        if protectionClass == .completeUnlessOpen {
            #expect(wrapped.bytes.count == 72)
            key = try ClassBPrivateKey(name: name, secret: vector.secret("class key")).unwrap(wrapped)
        } else {
            #expect(wrapped.bytes.count == 40)
            let classKey = try ClassKey(name: name, secret: vector.secret("class key"))
            key = try classKey.unwrap(wrapped)
            #expect(try classKey.wrap(key) == wrapped)
        }
        #expect(key.secret.readable() == (try vector.bytes("file key")))
    }
}
