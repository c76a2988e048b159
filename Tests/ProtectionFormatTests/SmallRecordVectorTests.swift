import TestVectors
import Testing

@testable import ProtectionFormat
@testable import ProtectionKeys

/// FORMAT.md §§2.3 to 2.5, 2.12.
@Suite struct SmallRecordVectorTests {
    @Test(arguments: try FormatVector.all(in: "attempts"))
    func sectorComesToWhatIsExpected(vector: FormatVector) throws {
        let bytes = try vector.bytes("bytes")
        let outcome = outcome {
            let record = try AttemptRecord(decoding: bytes)
            guard vector.isSuccess else { return }
            #expect(record.keybag == (try vector.keybag()))
            #expect(record.sequence == (try vector.number("sequence")))
            #expect(UInt64(record.failures) == (try vector.number("failures")))
            let tag = vector.has("guess tag") ? try vector.bytes("guess tag") : nil
            #expect(record.guessTag.map { [UInt8($0 & 0xFF), UInt8($0 >> 8)] } == tag)
            #expect(record.bootTime == (try vector.number("boot time")))
            #expect(record.bootID == (try vector.bytes("boot id")))
            #expect(try record.encoded() == bytes)
        }
        #expect(outcome == vector.expect)
    }

    @Test(arguments: try FormatVector.all(in: "transition"))
    func transitionSaysWhatIsExpected(vector: FormatVector) throws {
        let bytes = try vector.bytes("bytes")
        let record = TransitionRecord(decoding: bytes)
        guard vector.isSuccess else {
            #expect(vector.expect == "nothing")
            #expect(record == TransitionRecord())
            return
        }
        #expect(record.counter == (try vector.number("counter")))
        #expect(record.deadline == (try vector.number("deadline")))
        #expect(record.bootID == (try vector.bytes("boot id")))
        #expect(record.changedAt == (try vector.number("changed at")))
        #expect(record.limit == (try vector.number("limit")))
        #expect(record.encoded == bytes)
    }

    @Test(arguments: try FormatVector.all(in: "event"))
    func eventSaysWhatIsExpected(vector: FormatVector) throws {
        let bytes = try vector.bytes("bytes")
        guard vector.isSuccess else {
            #expect(vector.expect == "nothing")
            #expect(EventRecord(decoding: bytes) == nil)
            return
        }
        let record = try #require(EventRecord(decoding: bytes))
        #expect(UInt64(record.kind.rawValue) == (try vector.number("kind")))
        #expect(record.keybag == (try vector.keybag()))
        #expect(record.counter == (try vector.number("counter")))
        #expect(record.deadline == (try vector.number("deadline")))
        #expect(record.bootID == (try vector.bytes("boot id")))
        #expect(try record.encoded() == bytes)
    }

    @Test(arguments: try FormatVector.all(in: "ring-payload"))
    func payloadGivesTheKeys(vector: FormatVector) throws {
        let bytes = try vector.bytes("bytes")
        let fields = vector.names.filter { $0.hasPrefix("class key ") && !$0.hasPrefix("class key id ") }
        let ids = try Self.ids(of: vector)
        try bytes.withUnsafeBytes { payload in
            guard vector.isSuccess else {
                #expect(vector.expect == "no payload")
                #expect(RingPayload.loadedAt(payload) == nil)
                for name in try Self.names(["class key a 1", "class key b 1", "class key c 1"]) {
                    #expect(RingPayload.key(of: name, in: payload) == nil)
                }
                #expect(RingPayload.ids(of: .none, in: payload) == [:])
                return
            }
            #expect(RingPayload.ids(of: .none, in: payload) == ids)
            #expect(RingPayload.ids(of: .complete, in: payload) == [:])
            #expect(RingPayload.loadedAt(payload) == (try vector.number("loaded at")))
            for (field, name) in zip(fields, try Self.names(fields)) {
                #expect(RingPayload.key(of: name, in: payload).map(Array.init) == (try vector.bytes(field)))
            }
            for name in try Self.names(["class key d 1", "class key a 65", "class key c 2"]) {
                #expect(RingPayload.key(of: name, in: payload) == nil)
            }
        }
    }

    /// The order of entries is that of the fields in these files.
    @Test(arguments: ["a-and-b", "c", "secrets", "id-of-d"])
    func payloadIsWrittenAsExpected(name: String) throws {
        let vector = try FormatVector.named("ring-payload/\(name)")
        let fields = vector.names.filter { $0.hasPrefix("class key ") }
        var payload = [UInt8](repeating: 0, count: RingPayload.length(count: fields.count))
        for (index, name) in try Self.names(fields).enumerated() {
            let entry = try Self.entry(name, fields[index], of: vector)
            let loadedAt = try vector.number("loaded at")
            payload.withUnsafeMutableBytes { payload in
                RingPayload.write(entry, at: index, of: fields.count, loadedAt: loadedAt, into: payload)
            }
        }
        #expect(payload == (try vector.bytes("bytes")))
    }

    private static func entry(
        _ name: ClassKeyName, _ field: String, of vector: FormatVector
    ) throws -> RingPayload.Entry {
        if field.hasPrefix("class key id ") { return RingPayload.Entry(idOf: name, try vector.bytes(field)) }
        let secret = try vector.secret(field)
        if name.protectionClass == .completeUnlessOpen {
            return RingPayload.Entry(try ClassBPrivateKey(name: name, secret: secret))
        }
        return RingPayload.Entry(try ClassKey(name: name, secret: secret))
    }

    private static func ids(of vector: FormatVector) throws -> [UInt32: [UInt8]] {
        let fields = vector.names.filter { $0.hasPrefix("class key id d ") }
        return try Dictionary(
            uniqueKeysWithValues: zip(names(fields), fields).map { ($0.generation, try vector.bytes($1)) })
    }

    private static func names(_ fields: [String]) throws -> [ClassKeyName] {
        let keybag = try KeybagUUID(bytes: [UInt8](repeating: 0, count: 16))
        return try fields.map { field in
            let words = field.split(separator: " ").suffix(2)
            let number = try #require(["a", "b", "c", "d"].firstIndex(of: words.first))
            return ClassKeyName(
                keybag: keybag, kind: field.contains("of secrets") ? .secrets : .files,
                protectionClass: try #require(ProtectionClass(rawValue: UInt8(number + 1))),
                generation: try #require(words.last.flatMap { UInt32($0) }))
        }
    }
}
