/// A set of chunk indexes as ascending runs: in a content record the holes, which read as zeros. FORMAT.md §3.4.
///
/// A file has at most 32 holes, and a missing chunk is *damaged* and not zeros. Reading an unwritten home as zeros would be simpler,
/// but format 1 cannot do that safely:
///
/// 1. "This chunk is a hole" must be sealed. Otherwise anyone who can write to the disk could zero a chunk without a key
///    (fallocate(2), FALLOC_FL_PUNCH_HOLE), and lost blocks would go unnoticed.
/// 2. A home of zeros cannot be that seal. It would be a nonce, a ciphertext and a tag of zeros, and for a given key and index that
///    opens with probability 2^-128.
/// 3. A short seal at the home, 28 bytes over an empty text, does not have the length that FORMAT.md §3.7 step 4 asks for, so readers
///    of format 1 call the file *damaged* and not *unsupported*. It would also save little, because each marked chunk keeps a block.
/// 4. Of the other seals, the content record is the one that names holes. It has room for 32 runs, and readers of format 1 call a
///    greater number *damaged*.
///
/// So more holes need a bit of the incompatible features (§3.2), which older readers answer with *unsupported*. This *hole map* is
/// specified and not built. With its bit, bytes 56 to 87 of the content record are an offset (8, a multiple of 4,096, at or beyond the
/// homes of all chunks), a number of runs (8, ≤ 2^24) and a tag (16); r is 0. At that offset is SEAL(head key, AAD(5, content counter of
/// the record for which the map was made, empty), the runs as in §3.4), which begins with that counter (8) and ends with that tag. A map
/// is never changed in place: a commit writes a new map into room that nothing in force names, flushes it, and only then writes the
/// content record that names it. The tag binds a record to one map, so an older map cannot take its place. A reader checks the order and
/// limits of the runs as in §3.4. A writer sets the bit only when it makes a file, because the prefix never changes.
public struct ChunkRuns: Hashable, Sendable {
    /// Half-open ranges of chunk indexes, ascending, not touching.
    public private(set) var runs: [Range<UInt64>] = []

    /// What a content record has room for.
    public static let maximumRuns = 32

    /// The empty set.
    public init() {}

    /// - Parameter runs: ascending, not empty, not touching; else nil.
    public init?(runs: [Range<UInt64>]) {
        for (index, run) in runs.enumerated() {
            guard !run.isEmpty, index == 0 || runs[index - 1].upperBound < run.lowerBound else { return nil }
        }
        self.runs = runs
    }

    /// Whether chunk `index` is in the set.
    public func contains(_ index: UInt64) -> Bool {
        var low = 0
        var high = runs.count
        while low < high {
            let middle = (low + high) / 2
            if runs[middle].upperBound <= index { low = middle + 1 } else { high = middle }
        }
        return low < runs.count && runs[low].contains(index)
    }

    /// Adds `range`.
    public mutating func insert(_ range: Range<UInt64>) {
        guard !range.isEmpty else { return }
        var merged = range
        var result: [Range<UInt64>] = []
        for run in runs {
            if run.upperBound < merged.lowerBound || run.lowerBound > merged.upperBound {
                result.append(run)
            } else {
                merged = min(run.lowerBound, merged.lowerBound)..<max(run.upperBound, merged.upperBound)
            }
        }
        let place = result.firstIndex { $0.lowerBound > merged.lowerBound } ?? result.count
        result.insert(merged, at: place)
        runs = result
    }

    /// Takes `range` out.
    public mutating func remove(_ range: Range<UInt64>) {
        guard !range.isEmpty else { return }
        runs = runs.flatMap { run -> [Range<UInt64>] in
            guard run.overlaps(range) else { return [run] }
            return [
                run.lowerBound..<max(run.lowerBound, min(range.lowerBound, run.upperBound)),
                min(run.upperBound, max(range.upperBound, run.lowerBound))..<run.upperBound,
            ].filter { !$0.isEmpty }
        }
    }

    /// The shortest run, which is filled in first when there are too many.
    public var shortest: Range<UInt64>? { runs.min { $0.count < $1.count } }

    /// The first run of indexes from `index` on and below `count` that is not in the set; nil if there is none.
    public func runOutside(from index: UInt64, count: UInt64) -> Range<UInt64>? {
        var start = index
        for run in runs where run.upperBound > start {
            if run.lowerBound > start { return start < count ? start..<min(run.lowerBound, count) : nil }
            start = run.upperBound
        }
        return start < count ? start..<count : nil
    }

    /// The last index below `count` that is not in the set.
    func lastIndexOutside(count: UInt64) -> UInt64? {
        guard count > 0 else { return nil }
        guard let run = runs.last(where: { $0.contains(count - 1) }) else { return count - 1 }
        return run.lowerBound == 0 ? nil : run.lowerBound - 1
    }
}
