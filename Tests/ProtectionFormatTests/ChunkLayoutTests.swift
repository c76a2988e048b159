import TestEffort
import Testing

@testable import ProtectionFormat

/// FORMAT.md §3 and the examples of §3.7.
@Suite struct ChunkLayoutTests {
    /// A chunked file of `size` bytes.
    struct Example: Sendable, CustomTestStringConvertible {
        let layout: ChunkLayout
        let size: UInt64
        let chunks: UInt64
        let lastLength: Int
        let extent: UInt64

        var testDescription: String { "\(size) bytes in chunks of \(layout.chunkSize)" }

        init(_ layout: ChunkLayout, _ size: UInt64, chunks: UInt64, last: Int, extent: UInt64) {
            (self.layout, self.size, self.chunks, lastLength, self.extent) = (layout, size, chunks, last, extent)
        }
    }

    static let most = UInt64(1) << 60

    @Test(arguments: [
        Example(.small, 0, chunks: 0, last: 0, extent: 8192),
        Example(.small, 1, chunks: 1, last: 1, extent: 8221),
        Example(.small, 3584, chunks: 1, last: 3584, extent: 11_804),
        Example(.small, 3585, chunks: 1, last: 3585, extent: 11_805),
        Example(.small, 4095, chunks: 1, last: 4095, extent: 12_315),
        Example(.small, 4096, chunks: 1, last: 4096, extent: 12_316),
        Example(.small, 4097, chunks: 2, last: 1, extent: 12_345),
        Example(.small, 5000, chunks: 2, last: 904, extent: 13_248),
        Example(.small, 8191, chunks: 2, last: 4095, extent: 16_439),
        Example(.small, 8192, chunks: 2, last: 4096, extent: 16_440),
        Example(.small, 8193, chunks: 3, last: 1, extent: 16_469),
        Example(.small, most - 1, chunks: 1 << 48, last: 4095, extent: 8191 + (1 << 48) * 4124),
        Example(.small, most, chunks: 1 << 48, last: 4096, extent: 8192 + (1 << 48) * 4124),
        Example(.large, 0, chunks: 0, last: 0, extent: 8192),
        Example(.large, 1, chunks: 1, last: 1, extent: 8221),
        Example(.large, 4096, chunks: 1, last: 4096, extent: 12_316),
        Example(.large, 65_535, chunks: 1, last: 65_535, extent: 73_755),
        Example(.large, 65_536, chunks: 1, last: 65_536, extent: 73_756),
        Example(.large, 65_537, chunks: 2, last: 1, extent: 73_785),
        Example(.large, 1 << 30, chunks: 16_384, last: 65_536, extent: 1_074_208_768),
        Example(.large, most, chunks: 1 << 44, last: 65_536, extent: 8192 + (1 << 44) * 65_564),
    ])
    func sizesAtEveryEdge(example: Example) {
        let layout = example.layout
        let size = example.size
        #expect(layout.chunkCount(size: size) == example.chunks)
        let record = ContentRecord(size: size, layout: layout, holes: ChunkRuns(), counter: 0, sealCount: 0)
        #expect(record.chunkCount == example.chunks)
        #expect(layout.extent(of: record, generation: 1) == example.extent)
        #expect(layout.extent(of: record, generation: 2) == example.extent)
        #expect(layout.plainLength(example.chunks, size: size) == 0)
        guard example.chunks > 0 else { return }
        let last = example.chunks - 1
        #expect(layout.plainLength(last, size: size) == example.lastLength)
        #expect(layout.index(of: size - 1) == last)
        #expect(layout.home(last) == example.extent - UInt64(example.lastLength) - 28)
        #expect(layout.plainLength(0, size: size) == Int(min(size, UInt64(layout.chunkSize))))
    }

    @Test(arguments: [0, 1, 3583, 3584] as [UInt64])
    func inlineFilesTakeTheirHeadsOnly(size: UInt64) {
        let record = ContentRecord(inline: size, counter: 0, sealCount: 0)
        #expect(record.isInline && record.chunkCount == 0)
        #expect(ChunkLayout.small.extent(of: record, generation: 1) == 4096)
        #expect(ChunkLayout.small.extent(of: record, generation: 2) == 8192)
        #expect(ChunkLayout.large.extent(of: record, generation: 1) == 4096)
    }

    @Test(
        arguments: [
            ([], 13_248), ([0..<1], 13_248), ([1..<2], 12_316), ([0..<2], 8192),
        ] as [([Range<UInt64>], UInt64)])
    func extentEndsBehindTheLastChunkThatIsNoHole(holes: [Range<UInt64>], extent: UInt64) throws {
        let runs = try #require(ChunkRuns(runs: holes))
        let record = ContentRecord(size: 5000, layout: .small, holes: runs, counter: 0, sealCount: 0)
        #expect(ChunkLayout.small.extent(of: record, generation: 3) == extent)
    }

    @Test func onlyTwoChunkSizesExist() {
        for exponent in UInt8.min...UInt8.max {
            let layout = ChunkLayout(exponent: exponent)
            #expect((layout != nil) == (exponent == 12 || exponent == 16))
            #expect(layout.map(\.exponent) ?? exponent == exponent)
        }
        #expect(ChunkLayout.small.chunkSize == 4096)
        #expect(ChunkLayout.large.chunkSize == 65_536)
    }

    /// The chunks of a file are its bytes, once each, and their homes do not overlap.
    @Test(arguments: [ChunkLayout.small, .large])
    func chunksAreThePlaintext(layout: ChunkLayout) {
        var random = Effort.generator("chunks are the plaintext")
        for _ in 0..<Effort.count(200, 20_000) {
            let size = UInt64.random(in: 0..<2_000_000, using: &random)
            let count = layout.chunkCount(size: size)
            var total: UInt64 = 0
            var end: UInt64 = 8192
            for index in 0..<count {
                #expect(layout.index(of: total) == index)
                #expect(layout.home(index) == end)
                let length = UInt64(layout.plainLength(index, size: size))
                total += length
                end += length + 28
            }
            #expect(total == size)
        }
    }
}
