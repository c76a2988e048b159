import FuseSession
import ProtectedFiles
import Synchronization
import SystemPackage

/// Writes that were acknowledged and that no commit has taken, sealed, in the record of the connection: another server commits them.
///
/// An entry is its own length (8 bytes), a node (8 bytes), and a ``LoggedWrites`` change; without a change the node has no such writes any more.
final class RecordedWrites: Sendable {
    let record: ConnectionRecord
    private let room: Mutex<Room>
    private let least: Int
    private static let headLength = 16

    private struct Room {
        /// The length of the log, in bytes, at which it is written anew.
        var limit: Int
        /// What waits for commits has no room. Until there is one, to write the log anew would be in vain.
        var isFull = false
    }

    /// - Parameter least: the log is not written anew before it has this length, in bytes.
    init(_ record: ConnectionRecord, least: Int = 16 << 20) {
        (self.record, self.least) = (record, least)
        room = Mutex(Room(limit: least))
    }

    func note(_ node: FuseNode, _ entry: WriteLogEntry) {
        switch entry {
        case .change(let change): note(node, change)
        case .committed: note(node, nil)
        case .lost: note(node, nil, isLost: true)
        }
    }

    /// - Parameters:
    ///   - change: nil: nothing waits for a commit.
    ///   - isLost: whether something was given up that programs count on.
    func note(_ node: FuseNode, _ change: [UInt8]?, isLost: Bool = false) {
        var entry = [UInt64(Self.headLength + (change?.count ?? 0)), node].withUnsafeBytes { Array($0) }
        if let change { entry += change }
        room.withLock { room in
            // Marks first: somebody has to know, wherever this process is killed.
            if isLost { record.mark(node, .lost) }
            if change != nil { record.mark(node, .uncommitted) }
            if change == nil { room.isFull = false }
            if !room.isFull {
                let length = record.append(entry, to: .writes)
                if let length, length <= room.limit { return }
                let left = merged(without: change == nil ? node : nil)
                room.limit = max(least, 2 * left.count)
                let isReplaced = record.replace(.writes, by: left)
                if length == nil, change != nil {
                    room.isFull = !isReplaced || record.append(entry, to: .writes) == nil
                }
            }
            if room.isFull { record.mark(node, .unlogged) }
        }
        if change == nil { for mark in [ConnectionRecord.Mark.unlogged, .uncommitted] { record.unmark(node, mark) } }
    }

    /// The log with one entry for each node that has any.
    private func merged(without committed: FuseNode?) -> [UInt8] {
        var log: [UInt8] = []
        for (node, entries) in entries() where node != committed {
            guard let change = LoggedWrites(entries.map(\.change))?.merged else { continue }
            [UInt64(Self.headLength + change.count), node].withUnsafeBytes { log += $0 }
            log += change
        }
        return log
    }

    /// What an earlier server has left of a file; nil if it cannot be used.
    func left(of node: FuseNode) -> LoggedWrites? {
        if record.has(.unlogged, node) { return nil }
        return room.withLock { _ in entries()[node].flatMap { LoggedWrites($0.map(\.change)) } }
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
