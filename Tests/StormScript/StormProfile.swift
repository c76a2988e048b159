import TestEffort

/// What a worker does to one file, commit after commit, until it is killed.
///
/// Commit `number` of a seed is always the same steps: who counts commits knows the file's content.
public enum StormProfile: String, Sendable, CaseIterable {
    /// A log: some bytes more, every time.
    case append
    /// Bytes here and there, in files small and large.
    case overwrite
    /// Cut and continued, in turns with writes.
    case truncate
    /// So much overwritten that the redo area is emptied all the time.
    case emptying

    /// The steps of a commit; the sync behind them is not among them.
    public func steps(ofCommit number: Int, seed: UInt64) -> [FileStep] {
        var generator = SeededGenerator(seed: seed &* 0x1000_0001 &+ UInt64(number))
        func write(upTo limit: UInt64, _ counts: ClosedRange<Int>) -> FileStep {
            .write(
                offset: .random(in: 0...limit, using: &generator), count: .random(in: counts, using: &generator),
                seed: generator.next())
        }
        switch self {
        case .append:
            return [.append(count: .random(in: 1...9000, using: &generator), seed: generator.next())]
        case .overwrite:
            // Inline for the first commits, then a few chunks.
            if number < 6 { return [write(upTo: 2000, 1...1500)] }
            return (0...Int.random(in: 0...3, using: &generator)).map { _ in write(upTo: 120_000, 1...12_000) }
        case .truncate:
            let cut = FileStep.truncate(.random(in: 0...200_000, using: &generator))
            return Bool.random(using: &generator) ? [cut] : [write(upTo: 150_000, 1...30_000), cut]
        case .emptying:
            if number == 0 { return [.write(offset: 0, count: 2_000_000, seed: generator.next())] }
            return (0..<3).map { _ in write(upTo: 1_700_000, 100_000...300_000) }
        }
    }
}
