import Testing

@testable import ProtectionFormat

/// FORMAT.md §2.13.
@Suite struct OpenFileNameTests {
    private let path = Array("/home/a/mail".utf8)

    private func file(_ names: [[UInt8]]) -> [UInt8] {
        ClientRecord(pid: 1, program: "x").encoded + names.flatMap(OpenFileName.encode)
    }

    @Test func everyFieldIsWhereTheTableSays() {
        let bytes = OpenFileName.encode(path)
        #expect(bytes.count == 256)
        #expect(Array(bytes.prefix(14)) == [12, 0] + path)
        #expect(bytes.dropFirst(14).allSatisfy { $0 == 0 })
        #expect(OpenFileName.offset(of: 0) == 256)
        #expect(OpenFileName.offset(of: 15) == 4096)
    }

    @Test func placesThatAreFreeOrMissingNameNothing() {
        #expect(OpenFileName.decodeAll(file([path, [], Array("/b".utf8)])) == [path, Array("/b".utf8)])
        #expect(OpenFileName.decodeAll(file([])) == [])
        #expect(OpenFileName.decodeAll(file([path]).dropLast()) == [])
        #expect(OpenFileName.decodeAll([]) == [])
    }

    @Test func ofALongNameTheEndIsKept() {
        let long = (0..<1000).map { UInt8($0 % 200 + 1) }
        #expect(OpenFileName.decodeAll(file([long])) == [Array(long.suffix(254))])
    }

    @Test(arguments: [255, 256, 0xFFFF])
    func aLengthThatCannotBeNamesNothing(length: Int) {
        var bytes = file([path])
        (bytes[256], bytes[257]) = (UInt8(length & 0xFF), UInt8(length >> 8))
        #expect(OpenFileName.decodeAll(bytes) == [])
    }
}
