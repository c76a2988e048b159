import ProtectionFormat
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

@Suite("Salvage")
struct SalvageTests {
    private let bed: FileTestBed
    private let text = pattern(1, count: 30_000)
    init() throws { bed = try FileTestBed() }

    /// Writes bytes over chunks of a stored file.
    private func overwrite(_ path: FilePath, _ chunks: [UInt64], with bytes: [UInt8]) throws {
        var stored = try path.contents()
        for chunk in chunks {
            let place = Int(ChunkLayout.small.home(chunk))
            stored.replaceSubrange(place..<place + bytes.count, with: bytes)
        }
        try path.overwrite(stored)
    }

    @Test("A file that another program has overwritten in part is diagnosed, and every chunk that still opens is saved")
    func overwritten() throws {
        let path = try bed.make("f", .complete, text)
        let foreign = Array(Array(repeating: Array("plain text ".utf8), count: 300).joined())
        try overwrite(path, [0, 3, 4], with: foreign)
        let stored = try path.contents()
        let missing: [Range<Int64>] = [0..<4096, 12_288..<20_480]
        #expect(try bed.keybag.verify(path)?.findings == missing.map { .chunksOverwritten($0) })
        for number in 1...2 {
            let result = try bed.keybag.salvage(path)
            #expect(result.missing == missing)
            #expect(result.target.lastComponent?.string == "f.salvaged-\(number)")
            var expected = text
            for range in missing {
                for place in range { expected[Int(place)] = 0 }
            }
            #expect(try result.target.contents() == expected && result.target.mode() == 0o600)
        }
        #expect(try path.contents() == stored, "the damaged file is as it was")
    }

    @Test("A file that ends early is saved up to there, a whole one as a whole")
    func lengths() throws {
        let path = try bed.make("f", .complete, text)
        #expect(try bed.keybag.salvage(path).missing == [])
        #expect(try bed.path("f.salvaged-1").contents() == text)
        try path.overwrite(Array(try path.contents().prefix(Int(ChunkLayout.small.home(2)) + 100)))
        #expect(try bed.keybag.salvage(path).missing == [8192..<30_000])
        let expected = Array(text.prefix(8192)) + [UInt8](repeating: 0, count: 30_000 - 8192)
        #expect(try bed.path("f.salvaged-2").contents() == expected)
    }

    @Test("Where nothing opens, no file is made")
    func nothing() throws {
        let path = try bed.make("f", .complete, text)
        try overwrite(path, Array(0..<8), with: [UInt8](repeating: 7, count: 100))
        expectError("damaged") { _ = try bed.keybag.salvage(path) }
        let plain = try bed.makePlain("plain", text)
        expectError("notProtected") { _ = try bed.keybag.salvage(plain) }
        #expect(try bed.names() == ["f", "plain"])
    }
}
