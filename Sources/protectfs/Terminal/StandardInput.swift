import DataProtection
import Glibc

/// Standard input, or what else gives its bytes once, in pieces that are wiped when they are not needed any more.
final class StandardInput {
    private let descriptor: Int32
    private let buffer: UnsafeMutableRawBufferPointer
    /// How many bytes at the beginning have held input. Only these are wiped: most input is short.
    private var filled = 0
    /// A terminal goes on after its end of file (Ctrl-D); we do not.
    private var isAtEnd = false

    /// - Parameters:
    ///   - pieceSize: bytes of a piece, at most.
    ///   - descriptor: of a pipe, for instance, in the place of standard input.
    init(pieceSize: Int, descriptor: Int32 = 0) {
        self.descriptor = descriptor
        buffer = .allocate(byteCount: pieceSize, alignment: 4096)
    }

    deinit {
        SecretBytes.wipe(UnsafeMutableRawBufferPointer(rebasing: buffer[..<filled]))
        buffer.deallocate()
    }

    /// The size of a regular file, less what was read of it; 0 for pipes.
    static var size: Int64 {
        var status = stat()
        guard fstat(0, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return 0 }
        return max(0, Int64(status.st_size) - Int64(lseek(0, 0, SEEK_CUR)))
    }

    /// A whole piece: fewer bytes only at the end. Nil when interrupted.
    func fullPiece() throws(Failure) -> UnsafeRawBufferPointer? {
        var done = 0
        while done < buffer.count {
            guard let count = try read(at: done) else { return nil }
            if count == 0 { break }
            done += count
        }
        return UnsafeRawBufferPointer(rebasing: buffer[..<done])
    }

    /// What there is, as soon as there is something; empty at the end. Nil when interrupted.
    func nextPiece() throws(Failure) -> UnsafeRawBufferPointer? {
        guard let count = try read(at: 0) else { return nil }
        return UnsafeRawBufferPointer(rebasing: buffer[..<count])
    }

    private func read(at offset: Int) throws(Failure) -> Int? {
        while !isAtEnd {
            guard Interruption.waitForInput(descriptor) else { return nil }
            let count = Glibc.read(descriptor, buffer.baseAddress! + offset, buffer.count - offset)
            if count >= 0 {
                isAtEnd = count == 0
                filled = max(filled, offset + count)
                return count
            }
            guard errno == EINTR || errno == EAGAIN else {
                let name = descriptor == 0 ? "standard input" : "input"
                throw Failure(.inputOutput, "\(name): \(Errno.current.spoken)")
            }
        }
        return 0
    }
}
