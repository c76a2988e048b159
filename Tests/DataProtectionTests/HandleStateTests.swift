import Conformance
import Testing

@testable import DataProtection

/// Open handles through lock and unlock: what goes beyond the cells of the table.
@Suite struct HandleStateTests {
    private static let text = [UInt8](repeating: 0x61, count: 10_000)

    @Test(arguments: [Moment.beforeFirstUnlock, .locked])
    func unlessOpenHandleEndsWithItsClose(_ moment: Moment) throws {
        let bed = try FileTestBed()
        try bed.begin(moment)
        let file = try ProtectedFile.create(bed.path("f"), as: .completeUnlessOpen, keybag: bed.keybag)
        try file.write(Self.text, at: 0)
        expectError("locked", "another handle") { _ = try ProtectedFile.open(bed.path("f"), keybag: bed.keybag) }
        try file.close()
        expectError("locked") { _ = try ProtectedFile.open(bed.path("f"), .readWrite, keybag: bed.keybag) }
        try bed.enter(.unlocked)
        #expect(try bed.read(bed.path("f")) == Self.text)
    }

    /// Every kind of commit, prepared while unlocked, made while the key is away.
    @Test(arguments: [0, 100, 3584, 3585, 20_000], [0, 2000, 3584, 5000, 30_000])
    func completeHandleCommitsWithoutKey(_ sizeBefore: Int, _ sizeAfter: Int) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, [UInt8](repeating: 1, count: sizeBefore))
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.truncate(to: Int64(sizeAfter))
        if sizeAfter > 0 { try file.write([2], at: UInt64(sizeAfter / 2)) }
        try bed.keybag.lock()
        try file.sync()
        try bed.enter(.unlocked)
        var expected = [UInt8](repeating: 1, count: min(sizeBefore, sizeAfter))
        expected += [UInt8](repeating: 0, count: sizeAfter - expected.count)
        if sizeAfter > 0 { expected[sizeAfter / 2] = 2 }
        #expect(try bed.read(path) == expected, "after sync")
        if sizeAfter > 1 { try file.write([3], at: 0) }
        try bed.keybag.lock()
        try file.close()
        try bed.enter(.unlocked)
        if sizeAfter > 1 { expected[0] = 3 }
        #expect(try bed.read(path) == expected, "after close")
        try StoredFile(path).expectClosed()
    }

    @Test func lockByAnotherProcessCounts() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, Self.text)
        let file = try ProtectedFile.open(path, keybag: bed.keybag)
        let other = try bed.bag.reopened()
        try other.lock()
        expectError("locked") { _ = try file.bytes(at: 0, count: 1) }
        try other.unlock(passcode: secret(TestKeybag.passcode))
        #expect(try file.bytes(at: 0, count: 1) == [0x61])
    }

    @Test func writerAppendsAsLongAsTheKeyIsThere() throws {
        let bed = try FileTestBed()
        let writer = try ProtectedFileWriter(bed.path("f"), as: .complete, keybag: bed.keybag)
        try Self.text.withUnsafeBytes { try writer.append($0) }
        try bed.keybag.lock()
        expectError("locked") { try Self.text.withUnsafeBytes { try writer.append($0) } }
        try writer.finish()
        try bed.enter(.unlocked)
        #expect(try bed.read(bed.path("f")) == Self.text)
    }

    @Test func secondWriterIsTold() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .none, Self.text)
        let first = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        let second = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try first.write([1], at: 0)
        expectError("busy") { try second.write([2], at: 0) }
        #expect(try second.bytes(at: 0, count: 1) == [0x61], "not committed")
        try first.close()
        try second.write([2], at: 1)
        try second.close()
        #expect(try bed.read(path).prefix(3) == [1, 2, 0x61])
    }

    @Test func closedHandleSaysSo() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .none, Self.text)
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.close()
        try file.close()
        expectError("notOpen") { _ = try file.bytes(at: 0, count: 1) }
        expectError("notOpen") { try file.write([1], at: 0) }
        expectError("notOpen") { try file.sync() }
        expectError("notOpen") { _ = try file.size() }
        expectError("notOpen") { _ = try file.protectionClass() }
        let reader = try ProtectedFile.open(path, keybag: bed.keybag)
        expectError("notOpen") { try reader.write([1], at: 0) }
    }

    @Test func offsetsOutOfRange() throws {
        let bed = try FileTestBed()
        let file = try ProtectedFile.open(bed.path("f"), .readWrite, create: ProtectionClass.none, keybag: bed.keybag)
        for offset: Int64 in [.min, -1] {
            expectError("outOfRange") { _ = try file.read(1, at: offset) }
            expectError("outOfRange") { try [1].withUnsafeBytes { try file.write($0, at: offset) } }
            expectError("outOfRange") { try file.truncate(to: offset) }
        }
        for offset: Int64 in [.max, 1 << 60 + 1] {
            #expect(try file.read(1, at: offset).isEmpty)
            expectError("outOfRange") { try [1].withUnsafeBytes { try file.write($0, at: offset) } }
            expectError("outOfRange") { try file.truncate(to: offset) }
        }
    }
}
