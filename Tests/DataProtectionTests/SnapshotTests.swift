import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// Somebody who watches a disk, snapshot after snapshot, and never has a key.
@Suite struct SnapshotTests {
    @Test("The same bytes, written again, elsewhere, or to another file, have nothing in common on the disk")
    func sameBytes() throws {
        let bed = try FileTestBed()
        let page = pattern(9, count: 4096)
        let text = page + page + page
        let paths = [try bed.make("a", .complete, text), try bed.make("b", .complete, text)]
        var seen: [ArraySlice<UInt8>] = []
        for _ in 0..<3 {
            for path in paths {
                let stored = try path.contents()
                // Nonce, ciphertext and tag of each chunk: FORMAT.md §3.
                seen += (0..<3).map { stored[(8192 + 4124 * $0)..<(8192 + 4124 * ($0 + 1))] }
                let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
                try text.withUnsafeBytes { try file.write($0, at: 0) }
                try file.close()
            }
        }
        // At every place: two that have eight bytes alike are one seal kept, or one key stream used twice.
        var places: [UInt64: Int] = [:]
        for (index, chunk) in seen.enumerated() {
            for window in Set(
                chunk.indices.dropLast(7).map { at in
                    (0..<8).reduce(UInt64(0)) { $0 << 8 | UInt64(chunk[at + $1]) }
                })
            {
                let other = places.updateValue(index, forKey: window)
                #expect(other == nil, "chunks \(other ?? 0) and \(index)")
            }
        }
        #expect(seen.count == 18 && places.count > 18 * 4000)
        try bed.keybag.evictEverything()
    }
}
