import Foundation
import Glibc
import SystemPackage
import Testing

@testable import DataProtection

/// Copies of files with holes: holes are not read, and take no room.
@Suite("Sparse copies")
struct SparseCopyTests {
    private let bed: FileTestBed
    init() throws { bed = try FileTestBed() }

    private static let islands = 5
    private static let distance: UInt64 = 1 << 30

    /// 5 islands of 3,000 bytes, a GiB apart.
    private func makeIslands(_ name: String) throws -> FilePath? {
        let path = try bed.makePlain(name, [])
        let file = try LowerFile(path, flags: O_RDWR)
        for index in 0..<Self.islands {
            try file.write([UInt8](repeating: UInt8(index + 1), count: 3000), at: UInt64(index) * Self.distance)
        }
        try file.truncate(to: UInt64(Self.islands) * Self.distance)
        guard try file.status().st_blocks * 512 < 1 << 20 else {
            print("skipped: holes (the file system has none)")
            return nil
        }
        return path
    }

    /// What a call reads, in bytes. proc_pid_io(5), of this thread.
    private func bytesRead(_ body: () throws -> Void) throws -> Int {
        func count() throws -> Int {
            let text = String(decoding: try FilePath("/proc/thread-self/io").contents(), as: UTF8.self)
            let word = text.split { $0 == "\n" || $0 == " " }.dropFirst().first
            return try #require(word.flatMap { Int($0) })
        }
        let before = try count()
        try body()
        return try count() - before
    }

    private func stored(_ path: FilePath) throws -> Int {
        var status = stat()
        try #require(lstat(path.string, &status) == 0)
        return Int(status.st_blocks) * 512
    }

    private func expectIslands(_ path: FilePath) throws {
        let file = try ProtectedFile.open(path, keybag: bed.keybag)
        #expect(try file.size() == Int64(Self.islands) << 30)
        for index in 0..<Self.islands {
            let start = UInt64(index) * Self.distance
            #expect(try file.bytes(at: start, count: 3000) == [UInt8](repeating: UInt8(index + 1), count: 3000))
            #expect(try file.bytes(at: start + 3000, count: 1000) == [UInt8](repeating: 0, count: 1000))
        }
    }

    @Test("copyItem keeps the holes of plaintext and of protected files, and does not read them")
    func items() throws {
        guard let plain = try makeIslands("plain") else { return }
        let (first, second) = (bed.path("first"), bed.path("second"))
        for (source, copy) in [(plain, first), (first, second)] {
            let count = try bytesRead {
                try FileManager.default.copyItem(atPath: source.string, toPath: copy.string, protectedBy: bed.keybag)
            }
            #expect(count < 16 << 20, "of 5 GiB")
            #expect(try stored(copy) < 2 << 20)
            try expectIslands(copy)
            #expect(try bed.keybag.verify(copy)?.findings == [])
        }
    }

    @Test("Chunks of another size: a hole of the source is one as far as it has whole chunks of the copy")
    func otherChunks() throws {
        // Through a handle: 4 KiB chunks.
        let path = bed.path("f")
        let file = try ProtectedFile.open(path, .readWrite, create: .complete, keybag: bed.keybag)
        let end: UInt64 = 1 << 30
        for offset in [0, 5_000_000, end - 10] as [UInt64] { try file.write([7], at: offset) }
        try file.close()
        guard try stored(path) < 1 << 20 else { return print("skipped: holes (the file system has none)") }
        let copy = bed.path("g")
        try FileManager.default.copyItem(atPath: path.string, toPath: copy.string, protectedBy: bed.keybag)
        #expect(try stored(copy) < 1 << 20)
        let copied = try ProtectedFile.open(copy, keybag: bed.keybag)
        #expect(try copied.size() == Int64(end) - 9)
        for offset in [0, 5_000_000, end - 10] as [UInt64] { #expect(try copied.bytes(at: offset, count: 1) == [7]) }
        for offset in [1, 4_999_999, 5_000_001, end - 11] as [UInt64] {
            #expect(try copied.bytes(at: offset, count: 1) == [0])
        }
    }

    @Test("A copy of the stored bytes has the same holes, and none of them is read")
    func stored() throws {
        guard let path = try makeIslands("f") else { return }
        try bed.keybag.protect(path, as: .complete)
        let copy = bed.path("copy")
        let count = try bytesRead { try ProtectedFile.copyCiphertext(from: path, to: copy) }
        #expect(count < 16 << 20, "of 5 GiB")
        #expect(try stored(copy) < 2 << 20)
        try expectIslands(copy)
    }
}
