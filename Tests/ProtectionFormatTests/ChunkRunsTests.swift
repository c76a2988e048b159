import TestEffort
import Testing

@testable import ProtectionFormat

/// Runs of chunk indexes beside a plain set of them.
@Suite struct ChunkRunsTests {
    private static let indexes = UInt64(0)..<64

    /// What a set's runs are, found the slow way.
    private static func runs(of set: Set<UInt64>) -> [Range<UInt64>] {
        var runs: [Range<UInt64>] = []
        for index in set.sorted() {
            if let last = runs.last, last.upperBound == index {
                runs[runs.count - 1] = last.lowerBound..<index + 1
            } else {
                runs.append(index..<index + 1)
            }
        }
        return runs
    }

    @Test(arguments: 0..<UInt64(Effort.count(3, 100)))
    func behavesLikeASet(number: UInt64) throws {
        var random = Effort.generator("chunk runs, set \(number)", number)
        var runs = ChunkRuns()
        var set: Set<UInt64> = []
        for step in 0..<4000 {
            let first = UInt64.random(in: Self.indexes, using: &random)
            // Short ranges keep many runs alive; empty ones must change nothing.
            let range = first..<min(64, first + UInt64.random(in: 0...(step % 50 == 0 ? 40 : 4), using: &random))
            if Bool.random(using: &random) {
                runs.insert(range)
                set.formUnion(range)
            } else {
                runs.remove(range)
                set.subtract(range)
            }
            try #require(runs.runs == Self.runs(of: set), "step \(step)")
            #expect(Self.indexes.allSatisfy { runs.contains($0) == set.contains($0) })
            #expect(ChunkRuns(runs: runs.runs) == runs)
            #expect(runs.shortest?.count == Self.runs(of: set).map(\.count).min())
            for count in [0, 1, 32, 64] as [UInt64] {
                #expect(runs.lastIndexOutside(count: count) == (0..<count).last { !set.contains($0) })
            }
        }
    }

    @Test(
        arguments: [
            [1..<1], [1..<3, 3..<4], [1..<3, 2..<4], [5..<6, 1..<2], [1..<2, 1..<2], [0..<1, 2..<3, 3..<5],
            [1..<2, 5..<5],
        ] as [[Range<UInt64>]])
    func refusesRunsThatAreNotCanonical(runs: [Range<UInt64>]) {
        #expect(ChunkRuns(runs: runs) == nil)
    }

    @Test(arguments: [[], [0..<1], [0..<1, 2..<3], [7..<UInt64.max]] as [[Range<UInt64>]])
    func takesRunsThatAre(runs: [Range<UInt64>]) {
        #expect(ChunkRuns(runs: runs)?.runs == runs)
    }

    @Test func hugeRuns() {
        var runs = ChunkRuns()
        runs.insert(0..<1 << 48)
        #expect(runs.contains((1 << 48) - 1) && !runs.contains(1 << 48))
        #expect(runs.lastIndexOutside(count: 1 << 48) == nil)
        runs.remove((1 << 47)..<(1 << 47) + 1)
        #expect(runs.runs == [0..<1 << 47, (1 << 47) + 1..<1 << 48] as [Range<UInt64>])
        #expect(runs.lastIndexOutside(count: 1 << 48) == 1 << 47)
        #expect(runs.shortest == ((1 << 47) + 1..<1 << 48) as Range<UInt64>)
    }
}
