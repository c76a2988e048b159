import ProtectionFormat
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// Files are altered under handles that are open: errors, no crash, and nothing made worse.
@Suite struct TamperHandleTests {
    private let bed: FileTestBed
    private let path: FilePath
    private let text = pattern(1, count: 40_000)

    init() throws {
        bed = try FileTestBed()
        path = try bed.make("f", .complete, text)
    }

    private func alter(_ places: [Int]) throws {
        var bytes = try path.contents()
        for place in places { bytes[place] ^= 1 }
        let raw = try FileDescriptor.open(path, .writeOnly)
        try raw.closeAfter { _ = try raw.writeAll(toAbsoluteOffset: 0, bytes) }
    }

    /// Where chunk `index` lies.
    private func home(_ index: Int) -> Int { Int(ChunkLayout.small.home(UInt64(index))) }

    /// Both heads are damaged while a writer has something pending: sync and close say so.
    @Test(arguments: [false, true])
    func headsUnderAWriter(_ readsInBetween: Bool) throws {
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.write([1, 2, 3], at: 5000)
        let before = try path.contents()
        try alter([300, 4396])
        if readsInBetween {
            expectError("damaged") { _ = try file.bytes(at: 0, count: 10) }
            expectError("damaged") { try file.write([1], at: 0) }
            #expect(try file.size() == 40_000)
        }
        expectError("damaged") { try file.sync() }
        expectError("handleFailed") { try file.write([1], at: 0) }
        expectError("handleFailed") { try file.sync() }
        expectError("handleFailed") { try file.close() }
        try alter([300, 4396])
        #expect(try path.contents() == before, "nothing was written over what is damaged")
        #expect(try bed.read(path) == text)
    }

    /// A chunk that a write needs is damaged: the write fails, and what was written before is committed as it was.
    @Test func failedWriteLeavesEarlierOnes() throws {
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.truncate(to: 20 * 4096)
        try file.write([1, 2, 3], at: 100)
        try alter([home(8) + 50])
        // From the hole of chunk 7's neighbour into the damaged one: the first part can be sealed, the last cannot.
        expectError("damaged") { try file.write([UInt8](repeating: 9, count: 4096 + 100), at: 7 * 4096) }
        try file.sync()
        try file.close()
        try alter([home(8) + 50])
        var expected = text + [UInt8](repeating: 0, count: 20 * 4096 - text.count)
        expected.replaceSubrange(100..<103, with: [1, 2, 3])
        #expect(try bed.read(path) == expected)
    }

    /// The same where the part that can be sealed lies in a hole of what is to be committed.
    @Test func failedWriteIntoAHole() throws {
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.truncate(to: 30 * 4096)
        try file.write([UInt8](repeating: 5, count: 4096), at: 20 * 4096)
        try file.sync()
        try file.write([1, 2, 3], at: 100)
        try alter([home(20) + 50])
        expectError("damaged") { try file.write([UInt8](repeating: 9, count: 4096 + 100), at: 19 * 4096) }
        try file.sync()
        try file.close()
        try alter([home(20) + 50])
        var expected = text + [UInt8](repeating: 0, count: 30 * 4096 - text.count)
        expected.replaceSubrange(100..<103, with: [1, 2, 3])
        expected.replaceSubrange(20 * 4096..<21 * 4096, with: repeatElement(5, count: 4096))
        #expect(try bed.read(path) == expected)
    }

    /// The same where growth has emptied the area on the way.
    @Test func failedWriteThatGrows() throws {
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.write([1], at: 0)
        try file.sync()
        try file.write([1, 2, 3], at: 100)
        try alter([home(9) + 50])
        // The last chunk is partial and damaged: it cannot be continued.
        expectError("damaged") { try file.truncate(to: 4 << 20) }
        expectError("damaged") { try file.write([1], at: 4 << 20) }
        try file.sync()
        try file.close()
        try alter([home(9) + 50])
        var expected = text
        expected.replaceSubrange(0..<1, with: [1])
        expected.replaceSubrange(100..<103, with: [1, 2, 3])
        #expect(try bed.read(path) == expected)
    }

    /// The file is cut to nothing, or to a piece of it, under a reader and under a writer.
    @Test(arguments: [0, 100, 4096, 8192, 9000])
    func cut(_ length: Int) throws {
        let reader = try ProtectedFile.open(path, keybag: bed.keybag)
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try writer.write([1], at: 30_000)
        let raw = try FileDescriptor.open(path, .readWrite)
        try raw.resize(to: Int64(length))
        try raw.close()
        for _ in 0..<2 {
            #expect(throws: DataProtectionError.self) { try reader.bytes(at: 0, count: 40_000) }
            #expect(throws: DataProtectionError.self) { try writer.bytes(at: 0, count: 40_000) }
        }
        try? writer.sync()
        try? writer.close()
        try reader.close()
        #expect(throws: DataProtectionError.self) { try bed.read(path) }
    }

    /// A damaged file: whoever opens it to write is refused or writes; no crash, and what is read is never wrong.
    @Test func writersOfDamagedFiles() throws {
        let stored = try path.contents()
        for place in stride(from: 0, to: stored.count, by: Randomised.isTamperFull ? 7 : 301) {
            var bytes = stored
            bytes[place] ^= 0x10
            try path.overwrite(bytes)
            if let file = try? ProtectedFile.open(path, .readWrite, keybag: bed.keybag) {
                try? file.write([7], at: 12_000)
                try? file.truncate(to: 35_000)
                try? file.sync()
                try? file.close()
            }
            try? bed.keybag.setProtection(.completeUnlessOpen, ofItemAt: path)
            guard let found = try? bed.read(path) else { continue }
            let cut = Array(text.prefix(35_000))
            let written = text.prefix(12_000) + [7] + text[12_001...]
            let all = [text, cut, Array(written), Array(written.prefix(35_000))]
            #expect(all.contains(found), "byte \(place)")
        }
    }
}
