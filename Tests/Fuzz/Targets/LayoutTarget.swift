@testable import ProtectionFormat

/// Where chunks lie, and sets of chunk indexes, held against what is plainly so. FORMAT.md §3, §3.4.
///
///     1  bit 0: chunks of 64 KiB; bits 1…6: by how many bits every index is larger than it is written, 42 at most
///     8  size, modulo 2^60 + 1
///     8  an index
///     then, as long as there are three bytes: what is done (1), first index (1, below 64), how many (1, below 64)
extension FuzzTarget {
    static let chunkLayout = FuzzTarget("chunk-layout", longest: 512, run: LayoutTarget.run)
}

private enum LayoutTarget {
    static func run(_ bytes: [UInt8]) throws {
        var input = Input(bytes)
        let how = input.byte()
        let layout = how.has(0) ? ChunkLayout.large : .small
        try places(layout, size: input.number() % (ChunkLayout.maximumSize + 1), input.number())
        try sets(&input, shift: UInt64(how >> 1 & 63) % 43)
    }

    private static func places(_ layout: ChunkLayout, size: UInt64, _ number: UInt64) throws {
        let (chunk, count) = (UInt64(layout.chunkSize), layout.chunkCount(size: size))
        try hold(ChunkLayout(exponent: layout.exponent) == layout, "the exponent of a chunk size")
        try hold(
            ChunkLayout(exponent: UInt8(truncatingIfNeeded: number)) != nil || ![12, 16].contains(number & 255),
            "exponent")
        try hold(count * chunk >= size && (count == 0 || (count - 1) * chunk < size), "\(count) chunks of \(size)")
        let index = count == 0 ? 0 : number % count
        let length = layout.plainLength(index, size: size)
        try hold(length == (count == 0 ? 0 : index == count - 1 ? Int(size - index * chunk) : Int(chunk)), "\(length)")
        try hold(layout.plainLength(count, size: size) == 0, "a chunk behind the last")
        try hold(layout.index(of: index * chunk) == index, "the chunk of its first byte")
        try hold(layout.home(index + 1) == layout.home(index) + chunk + 28, "the home behind a home")
        var content = ContentRecord(size: size, layout: layout, holes: ChunkRuns(), counter: 1, sealCount: 0)
        let end = count == 0 ? 8192 : layout.home(count - 1) + UInt64(layout.plainLength(count - 1, size: size)) + 28
        try hold(layout.extent(of: content, generation: 2) == end, "the extent")
        if count > 0 { content.holes.insert(index..<count) }
        let cut = index == 0 ? 8192 : layout.home(index)
        try hold(layout.extent(of: content, generation: 2) == cut, "the extent with a hole at the end")
    }

    /// 64 indexes as bits, each of them standing for 2^shift.
    private static func sets(_ input: inout Input, shift: UInt64) throws {
        var (set, model) = (ChunkRuns(), UInt64(0))
        func wide(_ range: Range<UInt64>) -> Range<UInt64> { range.lowerBound << shift..<range.upperBound << shift }
        func bits(_ range: Range<UInt64>) -> UInt64 { range.reduce(0) { $0 | 1 << $1 } }
        while !input.isAtEnd {
            let (what, first, count) = (input.byte(), UInt64(input.byte() & 63), UInt64(input.byte() & 63))
            let range = first..<min(first + count, 64)
            if what.has(0) {
                set.insert(wide(range))
                model |= bits(range)
            } else {
                set.remove(wide(range))
                model &= ~bits(range)
            }
            try hold(ChunkRuns(runs: set.runs) == set, "runs that touch, or are empty, or do not ascend")
        }
        for index in 0..<64 as Range<UInt64> {
            let isIn = model >> index & 1 == 1
            try hold(set.contains(index << shift) == isIn, "index \(index)")
            try hold(set.contains((index + 1) << shift - 1) == isIn, "the last of index \(index)")
            let below = (0...index).last { model >> $0 & 1 == 0 }
            let last = set.lastIndexOutside(count: (index + 1) << shift)
            try hold(last == below.map { ($0 + 1) << shift - 1 }, "the last index that is not in it")
            let next = (index..<64).first { model >> $0 & 1 == 0 }
            let run = next.map { next in wide(next..<((next..<64).first { model >> $0 & 1 == 1 } ?? 64)) }
            try hold(set.runOutside(from: index << shift, count: 64 << shift) == run, "the run outside from \(index)")
        }
        try hold(set.lastIndexOutside(count: 0) == nil, "an index below 0")
        let shortest = set.shortest
        try hold((shortest == nil) == (model == 0), "no run is the shortest")
        try hold(set.runs.allSatisfy { $0.count >= shortest!.count }, "a shorter run")
    }
}
