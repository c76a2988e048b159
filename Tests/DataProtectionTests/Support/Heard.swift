import Synchronization

@testable import DataProtection

/// What somebody was told, from any thread, in order.
final class Heard<Item: Sendable>: Sendable {
    private let items = Mutex<[Item]>([])

    /// Everything so far.
    var all: [Item] { items.withLock { $0 } }

    func append(_ item: Item) { items.withLock { $0.append(item) } }

    /// Waits until what was heard is as expected; half a minute at most.
    func waits(until isExpected: ([Item]) -> Bool) async -> Bool {
        for _ in 0..<6000 {
            if isExpected(all) { return true }
            try? await Task.sleep(for: .milliseconds(5))
        }
        return isExpected(all)
    }
}
