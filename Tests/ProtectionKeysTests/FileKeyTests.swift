import Testing

@testable import ProtectionKeys

@Suite struct FileKeyTests {
    @Test func everyFileHasKeysOfItsOwn() throws {
        let key = FileKey(run(from: 0x81))
        let other = FileKey(run(from: 0x82))
        let file = try FileID(bytes: run(from: 0xF0, count: 16))
        let otherFile = try FileID(bytes: run(from: 0xF1, count: 16))
        let derived = [
            try key.chunkKey(of: file).readable(), try key.headKey(of: file).readable(), try key.commitment(of: file),
            try key.chunkKey(of: otherFile).readable(), try key.headKey(of: otherFile).readable(),
            try key.commitment(of: otherFile), try other.chunkKey(of: file).readable(),
            try other.headKey(of: file).readable(), try other.commitment(of: file), key.readable(), other.readable(),
        ]
        #expect(Set(derived).count == 11)
        #expect(derived.allSatisfy { $0.count == 32 })
    }

    @Test func randomKeysDiffer() throws {
        var keys: Set<[UInt8]> = []
        for _ in 0..<8 { keys.insert(try FileKey.random().readable()) }
        #expect(keys.count == 8)
    }
}
