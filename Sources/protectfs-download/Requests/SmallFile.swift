import Glibc

/// A file that is read whole: certificates.
enum SmallFile {
    /// What nobody's certificates are larger than.
    private static let limit = 4 << 20

    static func read(_ path: FilePath) throws(Failure) -> [UInt8] {
        let descriptor = path.withPlatformString { open($0, O_RDONLY | O_CLOEXEC) }
        guard descriptor >= 0 else {
            throw Failure(ExitStatus(.current), "\(quoted(path)): \(Errno.current.spoken)")
        }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        while bytes.count <= limit {
            let count = Glibc.read(descriptor, &piece, piece.count)
            if count == 0 { return bytes }
            guard count > 0 || errno == EINTR else {
                throw Failure(ExitStatus(.current), "\(quoted(path)): \(Errno.current.spoken)")
            }
            bytes += piece.prefix(max(count, 0))
        }
        throw Failure(.damaged, "\(quoted(path)) is too large for a file of certificates")
    }
}
