import ProtectionFormat
import StormScript
import SystemPackage
import TestEffort
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
        let raw = try FileDescriptor.open(path, .writeOnly, options: .closeOnExec)
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
        expectError(readsInBetween ? "handleFailed" : "damaged") { try file.sync() }
        expectError("handleFailed") { try file.write([1], at: 0) }
        expectError("handleFailed") { try file.sync() }
        expectError("handleFailed") { try file.close() }
        try alter([300, 4396])
        #expect(try path.contents() == before, "nothing was written over what is damaged")
        #expect(try bed.read(path) == text)
    }

    /// Ways to write that meet damage after a part of them has been sealed; `offset` is of a chunk that is damaged.
    enum HalfWrite: String, CaseIterable, Sendable {
        case intoCommittedChunks, intoAHole, growth, behindTheArea
    }

    /// A write fails by half: nothing of it is committed, the file is what it was, and another handle goes on.
    @Test(arguments: HalfWrite.allCases)
    func halfWrite(_ way: HalfWrite) throws {
        let nine = [UInt8](repeating: 9, count: 4096 + 100)
        let maker = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try maker.truncate(to: 30 * 4096)
        try maker.write([UInt8](repeating: 5, count: 4096), at: 20 * 4096)
        try maker.close()
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        if way == .behindTheArea {
            try file.write([6], at: 0)
            try file.sync()
        }
        let before = try bed.read(path)
        // Not acknowledged by any sync: it may be lost, but not by half.
        try file.write([1, 2, 3], at: 100)
        let place = home(way == .intoCommittedChunks ? 8 : 20) + 50
        try alter([place])
        expectError("damaged") {
            switch way {
            case .intoCommittedChunks: try file.write(nine, at: 7 * 4096)
            case .intoAHole: try file.write(nine, at: 19 * 4096)
            case .growth, .behindTheArea: try file.write([UInt8](repeating: 9, count: 1 << 20), at: 20 * 4096 + 1)
            }
        }
        expectError("handleFailed") { try file.write([1], at: 0) }
        expectError("handleFailed") { try file.sync() }
        expectError("handleFailed") { try file.close() }
        try alter([place])
        #expect(try bed.read(path) == before, "the last acknowledged commit")
        let next = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try next.write([4], at: 1)
        try next.close()
        #expect(try bed.read(path) == before.prefix(1) + [4] + before[2...])
        try StoredFile(path).expectClosed()
    }

    /// The file is cut to nothing, or to a piece of it, under a reader and under a writer.
    @Test(arguments: [0, 100, 4096, 8192, 9000])
    func cut(_ length: Int) throws {
        let reader = try ProtectedFile.open(path, keybag: bed.keybag)
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try writer.write([1], at: 30_000)
        let raw = try FileDescriptor.open(path, .readWrite, options: .closeOnExec)
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
        for place in Effort.slice(of: stride(from: 0, to: stored.count, by: 7)) {
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
