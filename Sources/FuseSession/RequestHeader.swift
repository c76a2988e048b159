import Glibc

/// `fuse_in_header` of linux/fuse.h.
struct RequestHeader {
    /// In bytes.
    static let length = 40

    let operation: UInt32
    /// The request's number, by which it is answered.
    let unique: UInt64
    /// Whether it is a WRITE of a file that was opened with O_APPEND.
    private let isAppending: Bool

    /// Nil if there are too few bytes.
    init?(_ request: UnsafeMutableRawBufferPointer) {
        guard request.count >= Self.length else { return nil }
        operation = request.load(fromByteOffset: 4, as: UInt32.self)
        unique = request.load(fromByteOffset: 8, as: UInt64.self)
        // `flags` of `fuse_write_in`.
        isAppending =
            operation == 16 && request.count >= Self.length + 36
            && request.load(fromByteOffset: Self.length + 32, as: Int32.self) & O_APPEND != 0
    }

    /// Whether it gets an answer: not FORGET, INTERRUPT, NOTIFY_REPLY and BATCH_FORGET.
    var isAnswered: Bool { ![2, 36, 41, 42].contains(operation) }

    /// Whether it must not be done twice, and another server may have done it: the kernel sends it once more (FUSE_UNIQUE_RESEND), and it is SYMLINK,
    /// MKNOD, MKDIR, UNLINK, RMDIR, RENAME, LINK, SETXATTR, REMOVEXATTR, CREATE, RENAME2 or a write behind the end.
    var mayBeDone: Bool {
        unique >> 63 == 1 && (isAppending || [6, 8, 9, 10, 11, 12, 13, 21, 24, 35, 45].contains(operation))
    }
}
