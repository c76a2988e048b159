import Synchronization

extension Int64 {
    /// The sum of sizes of files, in bytes. It stops at `Int64.max`: eight sparse files of 2^60 bytes each are more than that, and anybody
    /// can make them.
    package func adding(size: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(size)
        guard overflow else { return sum }
        return size > 0 ? .max : .min
    }
}

/// Bytes that several threads count together, for a bar. The sum stops at `Int64.max`.
package final class ByteCounter: Sendable {
    private let count = Atomic<Int64>(0)

    package init() {}

    package var bytes: Int64 { count.load(ordering: .relaxed) }

    package func add(_ bytes: Int64) {
        var before = count.load(ordering: .relaxed)
        while true {
            let (isExchanged, found) = count.weakCompareExchange(
                expected: before, desired: before.adding(size: bytes), ordering: .relaxed)
            if isExchanged { return }
            before = found
        }
    }
}
