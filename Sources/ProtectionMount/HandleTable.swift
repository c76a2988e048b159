import Synchronization

/// Values under numbers that are not used again.
final class HandleTable<Value: Sendable>: Sendable {
    private struct State: Sendable {
        var values: [UInt64: Value] = [:]
        var last: UInt64 = 0
    }
    private let state = Mutex(State())

    func add(_ value: Value) -> UInt64 {
        state.withLock { state in
            state.last += 1
            state.values[state.last] = value
            return state.last
        }
    }

    @discardableResult
    func remove(_ handle: UInt64) -> Value? { state.withLock { $0.values.removeValue(forKey: handle) } }

    /// Does nothing if there is none.
    func replace(_ handle: UInt64, by value: Value) {
        state.withLock { state in if state.values[handle] != nil { state.values[handle] = value } }
    }

    /// All of them, in no order.
    var values: [Value] { state.withLock { Array($0.values.values) } }

    subscript(_ handle: UInt64) -> Value? { state.withLock { $0.values[handle] } }
}
