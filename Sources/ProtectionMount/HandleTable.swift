import Synchronization

/// Values under numbers that are never used again, not even by later servers of the same connection.
final class HandleTable<Value: Sendable>: Sendable {
    private struct State: Sendable {
        var values: [UInt64: Value] = [:]
        var last: UInt64
    }
    private let state: Mutex<State>
    private let first: UInt64

    /// - Parameter servers: how many the connection had before.
    init(after servers: UInt64 = 0) {
        first = servers << 40 + 1
        state = Mutex(State(last: servers << 40))
    }

    /// Whether another server gave this number out.
    func isOfAnotherServer(_ handle: UInt64) -> Bool { handle < first }

    func add(_ value: Value) -> UInt64 {
        state.withLock { state in
            state.last += 1
            state.values[state.last] = value
            return state.last
        }
    }

    /// Takes over what another server gave out.
    func put(_ value: Value, at handle: UInt64) { state.withLock { $0.values[handle] = value } }

    @discardableResult
    func remove(_ handle: UInt64) -> Value? { state.withLock { $0.values.removeValue(forKey: handle) } }

    /// All of them, in no order.
    var values: [Value] { state.withLock { Array($0.values.values) } }

    subscript(_ handle: UInt64) -> Value? { state.withLock { $0.values[handle] } }
}
