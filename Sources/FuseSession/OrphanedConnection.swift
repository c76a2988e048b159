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
        refuseUnanswered()
        try POSIXThread.detach(blocksSignals: true) { [self] in
            // A request has bytes of files in it, which are wiped with it.
            guard let buffer = try? RequestBuffer(count: FuseSession.requestRoom) else { return }
            while let count = try? buffer.receive(from: descriptor) {
                let request = UnsafeMutableRawBufferPointer(rebasing: buffer.bytes[..<count])
                guard let header = RequestHeader(request) else { return }
                if header.isAnswered { Self.refuse(header.unique, ENOTCONN, on: descriptor) }
            }
        }
    }

    /// Refuses what was taken and not answered, again if need be: a thread of the dead server can have been in read(2) until now.
    package func refuseUnanswered() {
        // Also requests that the dead server did not note. One of its threads can be waiting for an answer, and keep the connection.
        if !asksAgain() { refuseTaken(ENOTCONN) }
    }

    /// Refuses what the dead server has noted that it took.
    func refuseTaken(_ errno: Int32) {
        for unique in record.openRequests { Self.refuse(unique, errno, on: descriptor) }
    }

    /// Has the kernel ask once more for all that was taken and not answered: FUSE_NOTIFY_RESEND.
    ///
    /// - Returns: false before Linux 6.9.
    func asksAgain() -> Bool { Self.send([Self.header(16, 7), 0], on: descriptor) == nil }

    static func refuse(_ unique: UInt64, _ errno: Int32, on connection: Int32) {
        _ = send([header(16, -errno), unique], on: connection)
    }

    /// Makes the kernel drop the pages of all nodes that are noted. Waits for those that are being read.
    ///
    /// - Returns: whether none are left.
    package func dropPages() -> Bool {
        var isDone = record.hasAllNodes
        record.forEachNode(.pages) { node in
            // FUSE_NOTIFY_INVAL_INODE, from byte 0 to the end.
            let errno = Self.send([Self.header(40, 2), 0, node, 0, 0], on: descriptor)
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
    private static func send(_ words: [UInt64], on connection: Int32) -> Int32? {
        while true {
            if words.withUnsafeBytes({ write(connection, $0.baseAddress, $0.count) }) >= 0 { return nil }
            if errno != EINTR { return errno }
        }
    }
}
