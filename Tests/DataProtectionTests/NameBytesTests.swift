import Foundation
import SystemPackage
import Testing

@testable import DataProtection

/// Names are bytes: not all of them are UTF-8, and two that look the same are two.
@Suite("Names of any bytes")
struct NameBytesTests {
    private let place = ScratchDirectory()

    private func component(_ bytes: [UInt8]) throws -> FilePath.Component {
        try #require(FilePath(bytes: bytes).lastComponent)
    }

    private static let names: [[UInt8]] = [
        Array("a".utf8), [0xFF], [0x61, 0xFE, 0x2E], Array(repeating: 0xFF, count: 255),
        Array(repeating: 0x80, count: 255),
        Array(String(repeating: "é", count: 127).utf8), Array(("a" + String(repeating: "\u{1F5DD}", count: 63)).utf8),
        // Swift takes a number sign with the dot behind it for one character, and so a dot with an accent.
        Array("a\u{600}".utf8), Array("\u{301}a".utf8), Array("a\nb".utf8),
    ]

    @Test("A temporary name begins with the bytes of the name, fits, and is recognised", arguments: names)
    func temporaryName(_ bytes: [UInt8]) throws {
        let mark = "18446744073709551615-18446744073709551615"
        let entry = DirectoryEntry(try component(bytes), in: try LowerDirectory(place.path)).beside(unfinished: mark)
        let made = entry.name.bytes
        #expect(made.count <= 255)
        let word = Array(".protectfs-unfinished-\(mark)".utf8)
        #expect(made.first == UInt8(ascii: ".") && made.suffix(word.count).elementsEqual(word))
        let own = made.dropFirst().dropLast(word.count)
        #expect(bytes.starts(with: own) && own.count > min(bytes.count, 190) - 4)
        if String(validating: entry.name) == nil { #expect(try String(validating: component(bytes)) == nil) }
        #expect(entry.unfinishedMarks == [.max, .max])
        #expect(try entry.path == place.path.appending(component(bytes)).beside(unfinished: mark))
    }

    @Test("Names that only look alike are no temporary names")
    func noTemporaryName() throws {
        let directory = try LowerDirectory(place.path)
        for text in [
            "a.protectfs-unfinished-1", ".protectfs-unfinished-1", ".a.protectfs-unfinished-1-2-3",
            ".a.protectfs-unfinished-",
            ".a.protectfs-unfinished-1.b",
        ] {
            #expect(DirectoryEntry(try component(Array(text.utf8)), in: directory).unfinishedMarks == nil, "\(text)")
        }
    }

    @Test("The parts of a log are told from those of one whose name differs in bytes that are no text")
    func logs() throws {
        let one: [UInt8] = [0x6C, 0xFF]
        let other: [UInt8] = [0x6C, 0xFE]
        let names: [[UInt8]] = [
            one, one + Array(".1".utf8), other, other + Array(".2".utf8), other + Array(".segment-7".utf8),
        ]
        for bytes in names { try place.path.appending(component(bytes)).overwrite([]) }
        let log = RotatedLog(place.path.appending(try component(one)))
        #expect(try log.paths().compactMap(\.bytes.last) == [0xFF, UInt8(ascii: "1")])
        #expect(try log.nextSegment() == 1)
    }

    @Test("Names that are not UTF-8 are left out where only text can be meant")
    func listing() throws {
        for bytes in [Array("a".utf8), [0x62, 0xFF]] { try place.path.appending(component(bytes)).overwrite([]) }
        #expect(try DirectoryListing.names(of: place.path) == ["a"])
    }

    @Test("A backup leaves out parts of downloads, whatever their names")
    func partsOfDownloads() throws {
        let beds = try BackupBed()
        let stored = try beds.bed.make("f", .complete, [1]).contents()
        let end = Array(".protectfs-download-0123456789abcdef0123456789abcdef-12".utf8)
        let parts: [[UInt8]] = [Array(".a".utf8), Array(".a\nb".utf8), [0x2E, 0xFF], Array(".a\u{600}".utf8)]
        let id = Array(end.dropLast(3))
        let others: [[UInt8]] = [Array("a".utf8) + id, [0x2E, 0xFE] + id, end, Array("x".utf8) + end]
        for bytes in parts.map({ $0 + end }) + others {
            try beds.bed.directory.appending(component(bytes)).overwrite(stored)
        }
        try beds.backUp()
        let found = try LowerDirectory(beds.copy("f").directory).names().map(\.bytes)
        #expect(Set(found) == Set(others + [Array("f".utf8)]))
    }
}
