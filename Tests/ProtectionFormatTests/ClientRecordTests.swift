import TestVectors
import Testing

@testable import ProtectionFormat

/// FORMAT.md §2.13.
@Suite struct ClientRecordTests {
    private var record: ClientRecord {
        var record = ClientRecord(pid: 0x0102, program: "browser")
        (record.acknowledged, record.completeHandles, record.unlessOpenHandles) = (0x0506_0708, 3, 4)
        record.plaintextFiles = 5
        return record
    }

    @Test(arguments: try FormatVector.all(in: "client"))
    func saysWhatIsExpected(vector: FormatVector) throws {
        let bytes = try vector.bytes("bytes")
        guard vector.isSuccess else {
            #expect(vector.expect == "nothing")
            #expect(ClientRecord(decoding: bytes) == nil)
            return
        }
        let record = try #require(ClientRecord(decoding: bytes))
        #expect(record.acknowledged == (try vector.number("acknowledged")))
        #expect(UInt64(record.completeHandles) == (try vector.number("complete handles")))
        #expect(UInt64(record.unlessOpenHandles) == (try vector.number("unless-open handles")))
        #expect(UInt64(record.pid) == (try vector.number("process")))
        #expect(UInt64(record.plaintextFiles) == (try vector.number("plaintext files")))
        #expect(Array(record.program.utf8) == (try vector.bytes("program")))
        #expect(record.encoded == bytes)
    }

    @Test func everyFieldIsWhereTheTableSays() {
        let bytes = record.encoded
        #expect(bytes.count == 256)
        #expect(bytes[0..<8] == ArraySlice("PFSCLIEN".utf8))
        #expect(bytes[8..<16] == [8, 7, 6, 5, 0, 0, 0, 0])
        #expect(bytes[16..<28] == [3, 0, 0, 0, 4, 0, 0, 0, 2, 1, 0, 0])
        #expect(bytes[28..<32] == [5, 0, 0, 0])
        #expect(bytes[32..<48].allSatisfy { $0 == 0 })
        #expect(bytes[48..<56] == ArraySlice("browser\0".utf8))
        #expect(ClientRecord(decoding: bytes) == record)
    }

    @Test func aNameIsCutAfter208Bytes() throws {
        let long = ClientRecord(pid: 1, program: String(repeating: "x", count: 300))
        #expect(long.encoded.count == 256)
        #expect(try #require(ClientRecord(decoding: long.encoded)).program.count == 208)
    }

    @Test(arguments: [0, 7, 32, 47])
    func whatBreaksTheTableIsNone(offset: Int) {
        var bytes = record.encoded
        bytes[offset] ^= 1
        #expect(ClientRecord(decoding: bytes) == nil)
    }

    @Test(arguments: [0, 255, 257])
    func anotherLengthIsNone(length: Int) {
        #expect(ClientRecord(decoding: Array((record.encoded + [0]).prefix(length))) == nil)
    }
}
