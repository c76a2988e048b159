import Foundation
import ProtectionKeys
import Testing

@testable import DataProtection

/// Files larger than memory: in pieces, and as they are stored.
@Suite struct StreamTests {
    private static let text = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 / 3) }

    @Test(arguments: [1000, 4096, 65_536, 1 << 20])
    func pieces(_ length: Int) async throws {
        let bed = try FileTestBed()
        let source = AsyncStream { continuation in
            for start in stride(from: 0, to: Self.text.count, by: 7001) {
                continuation.yield(Data(Self.text[start..<min(start + 7001, Self.text.count)]))
            }
            continuation.finish()
        }
        try await ProtectedFile.write(contentsOf: source, to: bed.path("f"), as: .complete, keybag: bed.keybag)
        try StoredFile(bed.path("f")).expectClosed()
        var read: [UInt8] = []
        let file = try ProtectedFile.open(bed.path("f"), keybag: bed.keybag)
        for try await piece in file.chunks(ofBytes: length) {
            #expect(piece.count == length || read.count + piece.count == Self.text.count)
            read += piece
        }
        #expect(read == Self.text)
    }

    @Test("A read returns what another handle has committed since the file was opened, and stops at its end")
    func grown() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, Array(Self.text.prefix(100)))
        let reader = try ProtectedFile.open(path, keybag: bed.keybag)
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try Self.text.lendBytes { text throws(DataProtectionError) in try writer.write(text, at: 0) }
        #expect(try Array(reader.read(Int.max, at: 0)) == Array(Self.text.prefix(100)), "not committed")
        try writer.sync()
        #expect(try Array(reader.read(Int.max, at: 0)) == Self.text)
        #expect(try Array(reader.read(50, at: 299_980)) == Array(Self.text.suffix(20)))
        #expect(try reader.read(50, at: 300_000).isEmpty)
        try writer.truncate(to: 10)
        try writer.close()
        #expect(try Array(reader.read(Int.max, at: 0)) == Array(Self.text.prefix(10)))
    }

    @Test func lockEndsNothing() async throws {
        let bed = try FileTestBed()
        try bed.make("f", .complete, Self.text)
        var pieces = try ProtectedFile.open(bed.path("f"), keybag: bed.keybag).chunks(ofBytes: 100_000)
            .makeAsyncIterator()
        #expect(try await pieces.next()?.first == 0)
        try bed.keybag.lock()
        let error = await #expect(throws: DataProtectionError.self) { try await pieces.next() }
        #expect(error?.caseName == "locked")
        try bed.enter(.unlocked)
        #expect(try await pieces.next() == Data(Self.text[100_000..<200_000]))
    }

    @Test func brokenSequenceLeavesNothing() async throws {
        struct Broken: Error {}
        let bed = try FileTestBed()
        let source = AsyncThrowingStream<Data, any Error> { continuation in
            continuation.yield(Data(Self.text))
            continuation.finish(throwing: Broken())
        }
        await #expect(throws: Broken.self) {
            try await ProtectedFile.write(contentsOf: source, to: bed.path("f"), as: .complete, keybag: bed.keybag)
        }
        #expect(try bed.names() == [])
    }

    @Test(arguments: ProtectionClass.allCases, [ProtectionState.locked, .beforeFirstUnlock])
    func ciphertextCopy(_ protectionClass: ProtectionClass, _ state: ProtectionState) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", protectionClass, Self.text)
        let edited = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try edited.truncate(to: 5_000_000)
        try edited.close()
        try path.setMode(0o600)
        try bed.enter(state)
        try ProtectedFile.copyCiphertext(from: path, to: bed.path("copy"))
        #expect(try bed.path("copy").contents() == path.contents())
        #expect(try bed.path("copy").mode() == 0o600)
        expectError("exists") { try ProtectedFile.copyCiphertext(from: path, to: bed.path("copy")) }
        try ProtectedFile.copyCiphertext(from: path, to: bed.path("copy"), replacing: true)
        try bed.makePlain("plain", Self.text)
        expectError("notProtected") {
            try ProtectedFile.copyCiphertext(from: bed.path("plain"), to: bed.path("other"))
        }
        #expect(try bed.names() == ["copy", "f", "plain"])
        try bed.enter(.unlocked)
        #expect(try bed.read(bed.path("copy")).prefix(Self.text.count) == Self.text[...])
    }
}
