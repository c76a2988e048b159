import FuseSession
import ProtectedFiles
import Synchronization
import SystemPackage

/// Writes that were acknowledged and that no commit has taken, sealed, in the record of the connection: another server commits them.
///
/// An entry is its own length (8 bytes), a node (8 bytes), and a ``LoggedWrites`` change; without a change the node has no such writes any more.
final class RecordedWrites: Sendable {
    let record: ConnectionRecord
    /// The length of the log, in bytes, at which it is written anew.
    private let limit: Mutex<Int>
    private let least: Int
    private static let headLength = 16

    /// - Parameter least: the log is not written anew before it has this length, in bytes.
    init(_ record: ConnectionRecord, least: Int = 16 << 20) {
        (self.record, self.least) = (record, least)
        limit = Mutex(least)
    }

    /// - Parameter change: nil: nothing waits for a commit.
    func note(_ node: FuseNode, _ change: [UInt8]?) {
        var entry = [UInt64(Self.headLength + (change?.count ?? 0)), node].withUnsafeBytes { Array($0) }
        if let change { entry += change }
        limit.withLock { limit in
            // The mark first: without a log that can be used, the write would be lost, and somebody has to know.
            if change != nil { record.mark(node, .uncommitted) }
            guard record.append(entry, to: .writes) > limit else { return }
            let left = entries().flatMap { $0.value.flatMap(\.entry) }
            record.replace(.writes, by: left)
            limit = max(least, 2 * left.count)
        }
        if change == nil { record.unmark(node, .uncommitted) }
    }

    /// What an earlier server has left of a file; nil if it cannot be used.
    func left(of node: FuseNode) -> LoggedWrites? {
        limit.withLock { _ in entries()[node].flatMap { LoggedWrites($0.map(\.change)) } }
    }

    private struct Entry {
        let entry: UnsafeRawBufferPointer
        var change: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: entry[headLength...]) }
    }

    /// The changes of each node that has any.
    private func entries() -> [FuseNode: [Entry]] {
        guard let log = record.bytes(of: .writes) else { return [:] }
        var entries: [FuseNode: [Entry]] = [:]
        var start = 0
        while log.count - start >= Self.headLength {
            let length = Int(clamping: log.loadUnaligned(fromByteOffset: start, as: UInt64.self))
            let node = log.loadUnaligned(fromByteOffset: start + 8, as: UInt64.self)
            guard length >= Self.headLength, length <= log.count - start else { return [:] }
            let entry = Entry(entry: UnsafeRawBufferPointer(rebasing: log[start..<start + length]))
            if length == Self.headLength { entries[node] = nil } else { entries[node, default: []].append(entry) }
            start += length
        }
        return entries
    }
}
