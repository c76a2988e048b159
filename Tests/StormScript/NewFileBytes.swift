/// What the worker writes into its `number`-th new file: of every size that is a border somewhere.
public func newFileBytes(_ number: Int, seed: UInt64) -> [UInt8] {
    let sizes = [0, 1, 3584, 3585, 4096, 4097, 8192, 70_000, 262_143, 262_144, 1_000_000]
    return pattern(seed &+ UInt64(number), count: sizes[number % sizes.count])
}
