import DataProtection
import Glibc

/// Which file a path leads to, and when it was changed last: equal only if nobody touched it.
struct FileVersion: Equatable {
    private let numbers: [Int]
    /// How many names lead to the file.
    let names: Int

    /// Nil if nothing is there.
    ///
    /// - Parameter follows: whether a link stands for what it leads to.
    init?(_ path: FilePath, following follows: Bool = false) {
        var status = stat()
        guard path.withPlatformString({ follows ? stat($0, &status) : lstat($0, &status) }) == 0 else { return nil }
        names = Int(status.st_nlink)
        numbers = [
            Int(status.st_dev), Int(bitPattern: status.st_ino), Int(status.st_size), status.st_mtim.tv_sec,
            status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec,
        ]
    }

    /// Nil only if nothing is there.
    ///
    /// - Throws: `system`.
    static func ifThere(_ path: FilePath) throws(DataProtectionError) -> FileVersion? {
        if let version = FileVersion(path) { return version }
        guard errno == ENOENT || errno == ENOTDIR else { throw .system(path, operation: "lstat", .current) }
        return nil
    }
}
