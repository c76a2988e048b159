import TestVectors
import Testing

@testable import ProtectionFormat

/// FORMAT.md §3.7, *Mangled*: what was a protected file before another program changed its beginning.
@Suite struct ManglingTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let what: String
        let file: [UInt8]
        let expected: Mangling?

        var testDescription: String { what }
    }

    static let head = try! HeadVector.inline()

    /// Each line feed gets a carriage return, as in an editor that writes files for DOS.
    static func toDOS(_ bytes: [UInt8]) -> [UInt8] { bytes.flatMap { $0 == 0x0A ? [0x0D, 0x0A] : [$0] } }

    /// The carriage returns before line feeds are removed.
    static func toUnix(_ bytes: [UInt8]) -> [UInt8] {
        zip(bytes, Array(bytes.dropFirst()) + [0]).filter { $0 != (0x0D, 0x0A) }.map(\.0)
    }

    /// As if the bytes were Latin-1.
    static func toUTF8(_ bytes: [UInt8]) -> [UInt8] {
        bytes.flatMap { Array(String(Character(UnicodeScalar($0))).utf8) }
    }

    static var rows: [Row] {
        var other = head
        other[3] ^= 1
        other[100] ^= 1
        var shifted = head
        for index in 0..<24 { shifted[index] = 0x20 }
        let wrong = Array(shifted[..<4000]) + [0xFF] + shifted[4001...]
        return [
            Row(what: "converted to DOS line ends", file: toDOS(head), expected: .converted),
            Row(what: "converted to Unix line ends", file: toUnix(head), expected: .converted),
            Row(what: "converted to UTF-8", file: toUTF8(head), expected: .converted),
            Row(what: "a byte order mark before it", file: [0xEF, 0xBB, 0xBF] + head, expected: .converted),
            Row(what: "another magic, and another byte in the head", file: other, expected: .overwritten),
            Row(what: "24 bytes replaced", file: shifted, expected: .overwritten),
            Row(what: "24 bytes replaced, and the check bad", file: wrong, expected: nil),
            Row(what: "25 bytes missing", file: Array(head[25...]), expected: nil),
            Row(what: "nothing", file: [], expected: nil),
            Row(what: "plaintext", file: [UInt8](repeating: 0x41, count: 5000), expected: nil),
            Row(what: "zeros", file: [UInt8](repeating: 0, count: 8192), expected: nil),
            Row(what: "within an archive", file: [UInt8](repeating: 0, count: 512) + head, expected: nil),
            Row(what: "the 16 bytes behind the magic alone", file: Array(head[8..<24]), expected: nil),
            Row(
                what: "a PNG file's first bytes", file: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A],
                expected: nil),
        ]
            + (1...24).map { count in
                Row(
                    what: "\(count) bytes missing", file: Array(head[count...]),
                    expected: .beginningMissing(bytes: count))
            }
    }

    @Test(arguments: rows)
    func isRecognized(row: Row) throws {
        #expect(try Mangling(in: Array(row.file.prefix(Head.length))) == row.expected)
    }

    /// The beginning of a file that is being written, or was cut, is looked at too.
    @Test func anyLengthIsRead() throws {
        for bytes in [Self.toDOS(Self.head), Array(Self.head[3...])] {
            for length in 0..<300 {
                let found = try Mangling(in: Array(bytes[..<length]))
                #expect(found == nil || length >= 64 - 8, "\(length) bytes")
            }
        }
    }
}
