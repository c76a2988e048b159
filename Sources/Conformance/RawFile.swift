import DataProtection
import Glibc
import SystemPackage

/// Files as they are stored, without the library.
enum RawFile {
    /// All bytes.
    static func bytes(of path: FilePath) throws -> [UInt8] {
        let file = try open(path, O_RDONLY)
        defer { Glibc.close(file) }
        return try bytes(of: file, path)
    }

    /// All bytes of an open file.
    ///
    /// - Throws: `Errno`.
    static func bytes(of file: FileDescriptor) throws -> [UInt8] {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = try piece.withUnsafeMutableBytes {
                try file.read(fromAbsoluteOffset: Int64(bytes.count), into: $0)
            }
            if count == 0 { return bytes }
            bytes += piece[..<count]
        }
    }

    /// All bytes from the place where the descriptor is.
    static func bytes(of descriptor: Int32, _ path: FilePath) throws -> [UInt8] {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = Glibc.read(descriptor, &piece, piece.count)
            if count < 0 && errno == EINTR { continue }
            guard count >= 0 else { throw DataProtectionError.failed(path, "read") }
            if count == 0 { return bytes }
            bytes += piece[..<count]
        }
    }

    /// A new file.
    static func make(_ path: FilePath, _ bytes: [UInt8]) throws {
        let file = try open(path, O_WRONLY | O_CREAT | O_EXCL)
        defer { Glibc.close(file) }
        try write(bytes, to: file, path)
    }

    /// All of it.
    static func write(_ bytes: [UInt8], to descriptor: Int32, _ path: FilePath) throws {
        var done = 0
        while done < bytes.count {
            let count = bytes[done...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress!, $0.count) }
            guard count >= 0 || errno == EINTR else { throw DataProtectionError.failed(path, "write") }
            done += max(count, 0)
        }
    }

    private static func open(_ path: FilePath, _ flags: Int32) throws -> Int32 {
        let file = path.withPlatformString { Glibc.open($0, flags | O_CLOEXEC | O_NOFOLLOW, 0o600) }
        guard file >= 0 else { throw DataProtectionError.failed(path, "open") }
        return file
    }
}
