/// Numbers for files that are named in order: the notes of a queue, the segments of a log.
///
/// Anybody who can write to the directory can give a file any number, the highest one too.
package enum FreeNumber {
    /// No file is given a number from here on: nobody gets there by counting. FORMAT.md §2.8.
    package static let end: UInt64 = 1 << 62

    /// The highest number that can be followed, plus one; 1 if there is none.
    ///
    /// - Parameter taken: the numbers that are in use, in any order.
    /// - Returns: a number below ``end`` that is not in `taken`.
    package static func after(_ taken: [UInt64]) -> UInt64 {
        let taken = Set(taken)
        return (taken.filter { $0 < end - 1 && !taken.contains($0 + 1) }.max() ?? 0) + 1
    }
}
