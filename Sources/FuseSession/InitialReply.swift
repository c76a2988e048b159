import CFuse
import Glibc
import Synchronization

/// Asks the kernel for shared mappings of files that are read and written past its cache: FUSE_DIRECT_IO_ALLOW_MMAP of linux/fuse.h, since
/// Linux 6.6. libfuse 3.14 does not know it, so it is put into the first reply, which says what the file system wants.
final class InitialReply: Sendable {
    private let isOffered = Atomic(false)
    private let isOver = Atomic(false)
    /// Whether the kernel has a reply already, of another server.
    private let isKnown: Bool

    init(isKnown: Bool) { self.isKnown = isKnown }

    /// FUSE_INIT.
    private static let operation: UInt32 = 26
    /// FUSE_INIT_EXT: there are 32 more flags.
    private static let hasMoreFlags: UInt32 = 1 << 30
    /// FUSE_DIRECT_IO_ALLOW_MMAP is flag 36, and so the fifth of these.
    private static let allowsMappings: UInt32 = 1 << 4

    /// Looks at a request, as long as none was answered: `fuse_in_header` and `fuse_init_in`.
    ///
    /// - Returns: whether it is the first one.
    func read(_ request: UnsafeRawBufferPointer) -> Bool {
        guard !isOver.load(ordering: .relaxed), request.count >= 60,
            request.load(fromByteOffset: 4, as: UInt32.self) == Self.operation
        else { return false }
        let hasMore = request.load(fromByteOffset: 52, as: UInt32.self) & Self.hasMoreFlags != 0
        let more = request.load(fromByteOffset: 56, as: UInt32.self)
        isOffered.store(hasMore && more & Self.allowsMappings != 0, ordering: .relaxed)
        return true
    }

    /// Sends a reply: writev(2).
    ///
    /// The first one is that to FUSE_INIT: `fuse_out_header`, and `fuse_init_out` with its flags at 12 and 32.
    func send(_ pieces: UnsafeMutablePointer<iovec>?, _ count: Int32, to connection: Int32) -> Int {
        let isFirst = !isOver.exchange(true, ordering: .relaxed)
        if isFirst, isKnown { return (0..<Int(count)).reduce(0) { $0 + (pieces?[$1].iov_len ?? 0) } }
        if isFirst, isOffered.load(ordering: .relaxed), count == 2, let pieces,
            let header = pieces[0].iov_base, let reply = pieces[1].iov_base, pieces[1].iov_len >= 36,
            header.load(fromByteOffset: 4, as: Int32.self) == 0
        {
            let flags = reply.load(fromByteOffset: 12, as: UInt32.self)
            let more = reply.load(fromByteOffset: 32, as: UInt32.self)
            reply.storeBytes(of: flags | Self.hasMoreFlags, toByteOffset: 12, as: UInt32.self)
            reply.storeBytes(of: more | Self.allowsMappings, toByteOffset: 32, as: UInt32.self)
        }
        return writev(connection, pieces, count)
    }

    /// What libfuse is to send and read by. Its user data is the session's: ``FuseSession/Served``.
    static let channel: fuse_custom_io = {
        var channel = fuse_custom_io()
        channel.writev = { connection, pieces, count, served in
            guard let served else {
                errno = EIO
                return -1
            }
            return Unmanaged<FuseSession.Served>.fromOpaque(served).takeUnretainedValue()
                .initialReply.send(pieces, count, to: connection)
        }
        channel.read = { connection, buffer, count, _ in Glibc.read(connection, buffer, count) }
        return channel
    }()
}
