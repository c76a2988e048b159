import Glibc
import POSIXThreads
import SystemPackage

/// The connection of a server that is dead, kept alive by this process, which has it open too. Nothing is served any more; but only through it the
/// kernel can be made to drop pages. When this process ends, the kernel cuts the connection.
package final class OrphanedConnection: Sendable {
    private let descriptor: Int32
    private let record: ConnectionRecord

    package init(descriptor: Int32, record: ConnectionRecord) { (self.descriptor, self.record) = (descriptor, record) }

    /// Refuses what the dead server has taken, and what comes, with ENOTCONN: on a thread that nobody waits for.
    ///
    /// A page whose read is not answered is not dropped either.
    package func refuseRequests() throws(POSIXThread.Refusal) {
        for unique in record.openRequests { refuse(unique) }
        try POSIXThread.detach(blocksSignals: true) { [self] in
            // A request has bytes of files in it, which are wiped with it.
            guard let buffer = try? RequestBuffer(count: FuseSession.requestRoom) else { return }
            while let count = try? buffer.receive(from: descriptor) {
                guard count >= Self.headerLength, let header = buffer.bytes.baseAddress else { return }
                let operation = header.load(fromByteOffset: 4, as: UInt32.self)
                if !Self.unanswered.contains(operation) { refuse(header.load(fromByteOffset: 8, as: UInt64.self)) }
            }
        }
    }

    /// Of `fuse_in_header` in linux/fuse.h, in bytes: its length, the operation, the request's number and more.
    private static let headerLength = 40
    /// FORGET, INTERRUPT, NOTIFY_REPLY and BATCH_FORGET of linux/fuse.h get no answer.
    private static let unanswered: Set<UInt32> = [2, 36, 41, 42]

    private func refuse(_ unique: UInt64) { _ = send([Self.header(16, -ENOTCONN), unique]) }

    /// Makes the kernel drop the pages of all nodes that are noted. Waits for those that are being read.
    ///
    /// - Returns: whether none are left.
    package func dropPages() -> Bool {
        var isDone = record.hasAllNodes
        record.forEachNode { node in
            // FUSE_NOTIFY_INVAL_INODE, from byte 0 to the end.
            let errno = send([Self.header(40, 2), 0, node, 0, 0])
            // The kernel does not have the node, also because the mount has gone. Of a connection that was cut nothing is known.
            if ![nil, ENOENT].contains(errno) { isDone = false }
        }
        return isDone
    }

    /// Length and error of `fuse_out_header`, or the kind of a notification.
    private static func header(_ length: UInt32, _ error: Int32) -> UInt64 {
        UInt64(length) | UInt64(UInt32(bitPattern: error)) << 32
    }

    /// - Returns: the errno of what is refused.
    private func send(_ words: [UInt64]) -> Int32? {
        while true {
            if words.withUnsafeBytes({ write(descriptor, $0.baseAddress, $0.count) }) >= 0 { return nil }
            if errno != EINTR { return errno }
        }
    }
}
