import DataProtection
import Glibc
import RNCryptorFormat

/// A message that is read twice: a regular file, or what a pipe gave, which waits in a protected file without a name meanwhile.
///
/// The message is sealed while it waits, because on the disk as it came its password would be easier to guess than the passcode.
/// Its plaintext cannot wait in the nameless file instead: nobody has verified it yet, and a message of version 2 can have two
/// plaintexts, one for each reading of the password.
final class MessageSource {
    /// For errors.
    let name: String
    private let descriptor: Int32
    /// Where the message begins in the file: standard input may have been read before.
    private let start: Int64
    private var spool: ProtectedSpool?
    /// In bytes; of a pipe, what came so far.
    private(set) var size: Int64
    /// Whether it can be read twice as it is.
    let isFile: Bool

    /// - Parameter path: `-` is standard input.
    init(_ path: FilePath) throws {
        let isStandardInput = path == "-"
        name = isStandardInput ? "standard input" : quoted(path)
        let descriptor =
            isStandardInput ? dup(0) : path.withPlatformString { open($0, O_RDONLY | O_CLOEXEC | O_NOCTTY) }
        guard descriptor >= 0 else { throw DataProtectionError.system(path, operation: "open", .current) }
        self.descriptor = descriptor
        var status = stat()
        guard fstat(descriptor, &status) == 0 else {
            close(descriptor)
            throw DataProtectionError.system(path, operation: "fstat", .current)
        }
        switch status.st_mode & S_IFMT {
        case S_IFREG:
            isFile = true
            start = Int64(max(0, lseek(descriptor, 0, SEEK_CUR)))
            size = max(0, Int64(status.st_size) - start)
        case S_IFIFO, S_IFSOCK, S_IFCHR:
            isFile = false
            (start, size) = (0, 0)
        default:
            close(descriptor)
            throw DataProtectionError.notRegularFile(path)
        }
    }

    deinit { close(descriptor) }

    /// Takes in all that a pipe gives. A file is left where it is.
    ///
    /// - Parameters:
    ///   - spool: where the bytes wait.
    ///   - check: gets the first bytes before more are read, at least ``RNCryptorHeader/maximumLength`` unless that is all.
    func takeIn(
        _ makeSpool: () throws -> ProtectedSpool, checking check: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        guard !isFile else { return }
        let input = StandardInput(pieceSize: RNCryptorOpener.longestPiece, descriptor: descriptor)
        let progress = Progress("reading", total: 0, isTyped: isatty(descriptor) == 1)
        var target: ProtectedSpool?
        while true {
            guard let piece = try input.fullPiece() else {
                throw Failure(.interrupted, "interrupted; nothing was opened")
            }
            if size == 0 { try check(piece) }
            if piece.isEmpty { break }
            let spool = try target ?? makeSpool()
            target = spool
            try spool.append(piece)
            size += Int64(piece.count)
            progress.show(size)
        }
        spool = target
    }

    /// Reads up to `buffer.count` bytes from `offset` on; fewer only at the end.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws -> Int {
        if Interruption.isRequested { throw Failure(.interrupted, "interrupted; nothing was opened") }
        if let spool { return try spool.read(into: buffer, at: offset) }
        var done = 0
        while done < buffer.count {
            let count = pread(
                descriptor, buffer.baseAddress! + done, buffer.count - done, off_t(start + offset) + off_t(done))
            if count < 0 && errno == EINTR { continue }
            guard count >= 0 else { throw Failure(.inputOutput, "\(name): \(Errno.current.spoken)") }
            if count == 0 { break }
            done += count
        }
        return done
    }
}
