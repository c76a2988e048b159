import DataProtection
import Glibc

/// Which file a path leads to, and when it was changed last. Equal if nobody touched it, or if only the keys of a protected file were wrapped
/// anew, by a rotation or a change of class.
struct FileVersion: Equatable {
    private let numbers: [Int]
    /// What a protected file has in it, as its heads name it; nil of other files.
    private let contents: StoredContents?
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
        contents = StoredContents(of: path)
    }

    static func == (one: FileVersion, other: FileVersion) -> Bool {
        let isSameItem = one.numbers.prefix(2) == other.numbers.prefix(2)
        return one.numbers == other.numbers || isSameItem && one.contents != nil && one.contents == other.contents
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
