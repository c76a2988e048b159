import DataProtection
import Glibc

/// Files of /proc and /sys.
enum KernelFile {
    /// The text, without the newline at its end.
    static func text(of path: FilePath, count: Int = 65_536) -> Reading<String> {
        let descriptor = path.withPlatformString { open($0, O_RDONLY | O_CLOEXEC | O_NONBLOCK) }
        guard descriptor >= 0 else { return .unknown("\(path) cannot be read: \(Errno.current.spoken)") }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 16_384)
        while bytes.count < count, case let done = Glibc.read(descriptor, &piece, piece.count), done > 0 {
            bytes += piece[..<done]
        }
        while bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
        return .known(String(decoding: bytes, as: UTF8.self))
    }
}
