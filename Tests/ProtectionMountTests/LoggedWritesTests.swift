import DataProtection
import DataProtectionTesting
import Foundation
import FuseSession
import Synchronization
import SystemPackage
import TestEffort
import Testing

@testable import ProtectionMount

@Suite("mount: writes that a dead server has left")
struct LoggedWritesTests {
    private let temporary: TemporaryKeybag
    init() throws { temporary = try TemporaryKeybag() }

    @Test("After each change, another handle commits to the file as it is stored, and finds what was written")
    func random() throws {
        var random = Effort.generator("LoggedWritesTests.random")
        for round in 0..<Effort.count(12, 400) {
            let path = temporary.directory.appending("file-\(round)")
            let record = try ConnectionRecord()
            let writes = RecordedWrites(record, least: round % 2 == 0 ? 16 << 20 : 10_000)
            let file = try ProtectedFile.open(path, .readWrite, create: .complete, keybag: temporary.keybag)
            file.logWrites { writes.note(7, $0) }
            // Others write too.
            func disturb() { writes.note(8, [UInt8](repeating: 1, count: 3000)) }
            var expected: [UInt8] = []
            let longest = [100, 5000, 40_000, 3_000_000].randomElement(using: &random)!
            disturb()
            for step in 0..<Int.random(in: 5...40, using: &random) {
                let offset = Int.random(in: 0...longest, using: &random)
                switch Int.random(in: 0..<10, using: &random) {
                case 0: try file.sync()
                case 1:
                    try file.truncate(to: Int64(offset))
                    expected =
                        Array(expected.prefix(offset)) + Array(repeating: 0, count: max(0, offset - expected.count))
                default:
                    let most = [10, 10_000, 600_000].randomElement(using: &random)!
                    let count = Int.random(in: 1...most, using: &random)
                    let bytes = [UInt8](repeating: UInt8.random(in: 1...255, using: &random), count: count)
                    try bytes.withUnsafeBytes { try file.write($0, at: Int64(offset)) }
                    expected += Array(repeating: 0, count: max(0, offset + count - expected.count))
                    expected.replaceSubrange(offset..<offset + count, with: bytes)
                }
                disturb()
                var isUncommitted = false
                record.forEachNode(.uncommitted) { if $0 == 7 { isUncommitted = true } }
                guard Int.random(in: 0..<3, using: &random) == 0 else { continue }
                let copy = path.string + "-\(step)"
                try FileManager.default.copyItem(atPath: path.string, toPath: copy)
                let other = try ProtectedFile.open(FilePath(copy), .readWrite, keybag: temporary.keybag)
                if isUncommitted { #expect(try other.commit(#require(writes.left(of: 7)))) }
                try other.close()
                let found = try Data(contentsOf: URL(fileURLWithPath: copy), protectedBy: temporary.keybag)
                #expect(found == Data(expected), "round \(round), step \(step)")
                let verdict = try temporary.keybag.verify(FilePath(copy))?.verdict
                #expect(verdict == .whole || !isUncommitted && verdict == .unclosed, "round \(round), step \(step)")
                try FileManager.default.removeItem(atPath: copy)
            }
            try file.close()
            record.forEachNode(.uncommitted) { #expect($0 == 8, "the file is closed") }
        }
    }

    @Test("A write without room is marked, earlier ones stay usable, and after a commit there is room again")
    func full() throws {
        let path = temporary.directory.appending("file")
        let file = try ProtectedFile.open(path, .readWrite, create: .complete, keybag: temporary.keybag)
        try Data(repeating: 1, count: 5 << 20).withUnsafeBytes { try file.write($0, at: 0) }
        try file.sync()
        let changes = Mutex([[UInt8]]())
        file.logWrites { entry in if case .change(let change) = entry { changes.withLock { $0.append(change) } } }
        try Data(repeating: 2, count: 5 << 20).withUnsafeBytes { try file.write($0, at: 0) }
        let all = changes.withLock { $0 }.reduce(into: [UInt8]()) { $0 += $1 }
        let ends = changes.withLock { $0 }.map(\.count)
        let change = try #require(
            all.withUnsafeBytes { all in
                var start = 0
                let parts = ends.map { count in
                    defer { start += count }
                    return UnsafeRawBufferPointer(rebasing: all[start..<start + count])
                }
                return LoggedWrites(parts)?.merged
            })
        let record = try ConnectionRecord()
        let writes = RecordedWrites(record)
        var last: UInt64 = 0
        while !record.has(.unlogged, last), last < 1000 {
            last += 1
            writes.note(last, change)
        }
        #expect(last == UInt64((64 << 20) / (change.count + 16) + 1))
        #expect(writes.left(of: last) == nil)
        #expect((1..<last).allSatisfy { writes.left(of: $0)?.merged.count == change.count })
        writes.note(1, change)
        #expect(record.has(.unlogged, 1) && writes.left(of: 1) == nil, "an older state than the one acknowledged")
        writes.note(2, nil)
        writes.note(last + 1, change)
        #expect(writes.left(of: last + 1) != nil && writes.left(of: 2) == nil)
        #expect(!record.has(.uncommitted, 2) && !record.has(.unlogged, last + 1))
    }
}
