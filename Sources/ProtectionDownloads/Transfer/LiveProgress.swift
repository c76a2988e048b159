import Synchronization

/// How far the downloads of this process are, to the byte: the list on disk knows only what is flushed.
final class LiveProgress: Sendable {
    private let all = Mutex<[DownloadID: (received: UInt64, length: UInt64?)]>([:])

    /// Nil if it is not under way in this process.
    func callAsFunction(_ id: DownloadID) -> (received: UInt64, length: UInt64?)? { all.withLock { $0[id] } }

    var isEmpty: Bool { all.withLock { $0.isEmpty } }

    /// Whether any of them is under way in this process.
    func has(any ids: Set<DownloadID>) -> Bool { all.withLock { $0.keys.contains(where: ids.contains) } }

    /// Those that are under way in this process.
    var ids: [DownloadID] { all.withLock { Array($0.keys) } }

    func set(_ received: UInt64, of length: UInt64?, for id: DownloadID) {
        all.withLock { $0[id] = (received, length) }
    }

    func remove(_ id: DownloadID) { all.withLock { $0[id] = nil } }
}
