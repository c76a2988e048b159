import FoundationEssentials
import StormScript
import Testing

@testable import DataProtection

/// What a handle has written and not committed, on paths that random work seldom takes.
@Suite struct PendingWriteTests {
    private static let chunk = 4096

    /// Emptying the area turns an overwrite into a fresh chunk; the newer version must be the only one.
    @Test(arguments: [1, 4])
    func anOverwriteThatBecomesFresh(chunks: Int) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, [UInt8](repeating: 1, count: 10 * Self.chunk))
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.write([UInt8](repeating: 2, count: chunks * Self.chunk), at: 0)
        try file.sync()  // the area holds records of these chunks
        try file.truncate(to: 0)
        try file.write([3], at: UInt64(10 * Self.chunk))
        try file.sync()  // they are holes now, and in the area
        try file.write([UInt8](repeating: 4, count: chunks * Self.chunk), at: 0)
        try file.write([5], at: UInt64(2000 * Self.chunk))  // grows beyond the area: it is emptied
        try file.write([UInt8](repeating: 6, count: chunks * Self.chunk), at: 0)
        let before = try file.bytes(at: 0, count: chunks * Self.chunk)
        #expect(before.allSatisfy { $0 == 6 })
        try file.sync()
        try file.close()
        let again = try ProtectedFile.open(path, keybag: bed.keybag)
        let after = try again.bytes(at: 0, count: chunks * Self.chunk)
        #expect(after.allSatisfy { $0 == 6 })
        #expect(try again.bytes(at: UInt64(10 * Self.chunk), count: 1) == [3])
        #expect(try again.bytes(at: UInt64(2000 * Self.chunk), count: 1) == [5])
    }

    /// What was given up is not committed by the handle's end, neither by `discard()` nor when a commit is impossible.
    @Test func discardedWritesAreGone() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, Array("old".utf8))
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.truncate(to: 0)
        try file.write(Array("new, and longer".utf8), at: 0)
        file.discard()
        #expect(try bed.read(path) == Array("old".utf8))
    }

    /// Without `.atomic` an existing file is overwritten; at every size it is the old or the new one, and its class stays.
    @Test(arguments: [0, 3, 4000, 5 << 20])
    func overwritingWithoutAtomic(size: Int) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .completeUnlessOpen, [UInt8](repeating: 1, count: 9000))
        let url = URL(filePath: path.string)
        try Data(repeating: 7, count: size).write(to: url, protectedBy: bed.keybag)
        #expect(try bed.read(path) == [UInt8](repeating: 7, count: size))
        #expect(try ProtectedFileInfo(of: path).protectionClass == .completeUnlessOpen)
        try bed.keybag.lock()
        #expect(throws: CocoaError.self) { try Data([1]).write(to: url, protectedBy: bed.keybag) }
        try bed.bag.unlock()
        #expect(try bed.read(path) == [UInt8](repeating: 7, count: size))
    }

    /// More holes than a content record has room for, the shortest of them too long to be filled: refused, and the file is
    /// what it was at its last commit.
    @Test func holesTooLongToFill() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete)
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.write([1], at: 0)
        try file.sync()
        let error = #expect(throws: DataProtectionError.self) {
            for index in 1...40 { try file.write([1], at: UInt64(index) << 38) }
        }
        if case .because(FileFailure.tooSparse(path, let stored, let needed))? = error {
            #expect(stored < 1 << 20 && needed > 1 << 37)
        } else {
            Issue.record("\(String(describing: error))")
        }
        #expect(throws: DataProtectionError.self) { try file.sync() }
        #expect(throws: DataProtectionError.self) { try file.close() }
        #expect(try bed.read(path) == [1])
    }
}
