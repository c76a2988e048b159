import CMemoryFiles
import DataProtection
import Glibc

/// A plain file in memory.
final class MemoryFile {
    private let path: FilePath
    private let descriptor: Int32
    private var end: Int64 = 0

    /// Makes the file, or empties it.
    init(creating path: FilePath) throws(DataProtectionError) {
        let flags = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW
        descriptor = path.withPlatformString { open($0, flags, 0o600) }
        self.path = path
        guard descriptor >= 0 else { throw Self.error(path, "open") }
    }

    /// Opens the file for reading; nil if nothing is there.
    ///
    /// - Throws: `notRegularFile` (links included), `system`: what is there cannot be read, and is not taken for nothing.
    init?(opening path: FilePath) throws(DataProtectionError) {
        descriptor = path.withPlatformString { open($0, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) }
        self.path = path
        if descriptor < 0 {
            switch errno {
            case ENOENT: return nil
            case ELOOP: throw .notRegularFile(path)
            default: throw Self.error(path, "open")
            }
        }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Self.error(path, "fstat") }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .notRegularFile(path) }
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    func append(_ piece: UnsafeRawBufferPointer) throws(DataProtectionError) {
        var done = 0
        while done < piece.count {
            let count = pwrite(descriptor, piece.baseAddress! + done, piece.count - done, off_t(end))
            guard count >= 0 || errno == EINTR else { throw Self.error(path, "pwrite") }
            done += max(count, 0)
            end += Int64(max(count, 0))
        }
    }

    /// Fewer bytes than `buffer` holds only at the end.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(DataProtectionError) -> Int {
        var done = 0
        while done < buffer.count {
            let count = pread(descriptor, buffer.baseAddress! + done, buffer.count - done, off_t(offset) + off_t(done))
            guard count >= 0 || errno == EINTR else { throw Self.error(path, "pread") }
            if count == 0 { break }
            done += max(count, 0)
        }
        return done
    }

    /// Waits until nobody has the file open for writing, a fifth of a second at most.
    ///
    /// - Returns: false if somebody has: what is in it may be half of what is being saved.
    func waitForWriter() -> Bool {
        for _ in 0..<10 {
            if protectfs_has_no_writer(descriptor) != 0 { return true }
            usleep(20_000)
        }
        return protectfs_has_no_writer(descriptor) != 0
    }

    private static func error(_ path: FilePath, _ operation: String) -> DataProtectionError {
        .system(path, operation: operation, Errno.current)
    }
}

/// Plaintext from its beginning to its end, in pieces that are wiped afterwards.
enum Pieces {
    /// Reads from an offset; fewer bytes than the buffer holds only at the end.
    typealias Source = (UnsafeMutableRawBufferPointer, _ offset: Int64) throws(DataProtectionError) -> Int

    static func forEach(
        of source: Source, _ body: (UnsafeRawBufferPointer) throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) {
        let buffer = PlaintextBuffer()
        var offset: Int64 = 0
        while true {
            let count = try source(buffer.bytes, offset)
            if count == 0 { return }
            try body(buffer.prefix(count))
            offset += Int64(count)
            if count == buffer.bytes.count { buffer.grow() }
        }
    }

    static func areEqual(_ one: Source, _ other: Source) throws(DataProtectionError) -> Bool {
        let (first, second) = (PlaintextBuffer(), PlaintextBuffer())
        var offset: Int64 = 0
        while true {
            let count = try one(first.bytes, offset)
            guard try other(second.bytes, offset) == count,
                memcmp(first.bytes.baseAddress!, second.bytes.baseAddress!, count) == 0
            else { return false }
            if count == 0 { return true }
            offset += Int64(count)
            if count == first.bytes.count {
                first.grow()
                second.grow()
            }
        }
    }
}

extension ProtectedFile {
    /// The plaintext.
    var pieces: Pieces.Source {
        { buffer, offset throws(DataProtectionError) in try self.read(into: buffer, at: offset) }
    }
}
