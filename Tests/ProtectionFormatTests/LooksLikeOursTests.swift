import TestVectors
import Testing

@testable import ProtectionFormat

/// FORMAT.md §3.7, "One of ours": what is never taken for plaintext.
@Suite struct LooksLikeOursTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let what: String
        let file: [UInt8]
        let isOurs: Bool

        var testDescription: String { what }
    }

    static let head = try! HeadVector.inline()
    static let plain = [UInt8](repeating: 0x41, count: 5000)

    static var rows: [Row] {
        let magic = Prefix.magic
        var otherMagic = head
        otherMagic[3] ^= 1
        var otherMagicAndByte = otherMagic
        otherMagicAndByte[100] ^= 1
        var zeroMagic = head
        for index in 0..<8 { zeroMagic[index] = 0 }
        return [
            Row(what: "nothing", file: [], isOurs: false),
            Row(what: "a head", file: head, isOurs: true),
            Row(what: "the magic and plaintext", file: magic + plain, isOurs: true),
            Row(what: "a head with another magic", file: otherMagic, isOurs: true),
            Row(what: "a head with another magic, and more", file: otherMagic + plain, isOurs: true),
            Row(what: "a head without magic", file: zeroMagic, isOurs: true),
            Row(what: "a head with another magic and another byte", file: otherMagicAndByte, isOurs: false),
            Row(what: "the same, the magic in head 1's place", file: otherMagicAndByte + magic, isOurs: true),
            Row(what: "a cut head with another magic", file: Array(otherMagic.dropLast()), isOurs: false),
            Row(what: "plaintext", file: plain, isOurs: false),
            Row(what: "zeros", file: [UInt8](repeating: 0, count: 8192), isOurs: false),
            Row(what: "plaintext, the magic in head 1's place", file: plain[..<4096] + magic, isOurs: true),
            Row(what: "plaintext, part of the magic there", file: plain[..<4096] + Array(magic[..<7]), isOurs: false),
            Row(what: "plaintext, the magic a byte later", file: plain[..<4097] + magic, isOurs: false),
            Row(what: "the magic a byte late", file: [0] + magic, isOurs: false),
            Row(
                what: "a PNG file's first bytes", file: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A], isOurs: false),
            Row(what: "seven bytes, the last another one", file: Array(magic[..<6]) + [0], isOurs: false),
            Row(what: "eight bytes, the last another one", file: Array(magic[..<7]) + [0], isOurs: false),
        ] + (1...8).map { Row(what: "\($0) bytes of the magic", file: Array(magic[..<$0]), isOurs: true) }
    }

    @Test(arguments: rows)
    func tellsOursFromPlaintext(row: Row) throws {
        let start = Array(row.file.prefix(Head.length))
        let second = Array(row.file.dropFirst(Head.length).prefix(8))
        #expect(try Head.looksLikeOurs(start: start, second: second) == row.isOurs)
    }
}
