import Glibc
import SystemPackage
import Testing

@testable import DataProtection

/// Byte locks of an open file.
@Suite struct ByteLockTests {
    /// A child between fork(2) and exec(2) has every open file of its parent for a moment.
    @Test(arguments: [true, false])
    func endsWithTheFile(isClosed: Bool) throws {
        let bed = try FileTestBed()
        let path = try bed.makePlain("f", [1])
        var file: LowerFile? = try LowerFile(path, flags: O_RDWR)
        #expect(try file?.tryByteLock(OpenFile.writerLock, .exclusive) == true)
        let child = dup(try #require(file?.descriptor))
        defer { close(child) }
        let other = try LowerFile(path, flags: O_RDWR)
        #expect(try other.tryByteLock(OpenFile.writerLock, .exclusive) == false)
        if isClosed { try file?.close() }
        file = nil
        #expect(try other.tryByteLock(OpenFile.writerLock, .exclusive))
    }

    @Test("Changes to a file fail as busy while a reader holds its lock, and succeed afterwards")
    func heldByReader() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .completeUntilFirstUserAuthentication, [1])
        let reader = try LowerFile(path, flags: O_RDONLY)
        #expect(try reader.tryByteLock(OpenFile.slotLock, .shared))
        expectError("busy") { try bed.keybag.setProtection(.complete, ofItemAt: path) }
        expectError("busy") { _ = try bed.keybag.protect(path, as: .complete) }
        expectError("busy") {
            let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
            try file.write([2], at: 0)
        }
        #expect(try bed.read(path) == [1])
        try reader.close()
        try bed.keybag.setProtection(.complete, ofItemAt: path)
        #expect(try ProtectedFileInfo(of: path).protectionClass == .complete)
    }
}
