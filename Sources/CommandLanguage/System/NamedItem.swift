import DataProtection
import Glibc

/// What lies under a name, without following a link in the last component.
package struct NamedItem: Sendable {
    package enum Kind: Sendable {
        case directory, file, link, other
    }

    package let path: FilePath
    package let kind: Kind
    package let size: Int64
    package let device: dev_t
    package let inode: ino_t
    /// How many names a file has.
    package let nameCount: Int
    /// Where it was found, for what must not be done elsewhere if somebody swaps a directory of the path meanwhile; nil if it was named.
    package let entry: DirectoryEntry?

    /// lstat(2).
    package init(_ path: FilePath) throws(DataProtectionError) {
        // An open directory, as a path, is a link too.
        if path.isDescriptor {
            try self.init(following: path)
        } else {
            try self.init(path, function: "lstat") { lstat($0, &$1) }
        }
    }

    /// stat(2): what a link leads to.
    package init(following path: FilePath) throws(DataProtectionError) {
        try self.init(path, function: "stat") { stat($0, &$1) }
    }

    private init(
        _ path: FilePath, function: String, _ call: (UnsafePointer<CChar>, inout stat) -> Int32
    ) throws(DataProtectionError) {
        var status = stat()
        guard path.withPlatformString({ call($0, &status) }) == 0 else {
            throw .system(path, operation: function, .current)
        }
        self.init(path, status, nil)
    }

    /// fstatat(2); nil if there is nothing of that name any more.
    package init?(_ entry: DirectoryEntry) throws(DataProtectionError) {
        guard let status = try entry.directory.status(of: entry.name) else { return nil }
        self.init(entry.path, status, entry)
    }

    private init(_ path: FilePath, _ status: stat, _ entry: DirectoryEntry?) {
        self.path = path
        self.entry = entry
        size = Int64(status.st_size)
        device = status.st_dev
        inode = status.st_ino
        nameCount = Int(status.st_nlink)
        kind =
            switch status.st_mode & S_IFMT {
            case S_IFDIR: .directory
            case S_IFREG: .file
            case S_IFLNK: .link
            default: .other
            }
    }
}

extension NamedItem {
    /// Opens a file for reading, where it was found. A link is followed only if it was named.
    ///
    /// - Throws: `notRegularFile`, `system`.
    package func file() throws(DataProtectionError) -> LowerFile {
        guard let entry else { return try LowerFile(regular: path, flags: O_RDONLY) }
        return try entry.directory.file(entry.name, flags: O_RDONLY, path: path)
    }

    /// Opens a directory, where it was found. A link is followed only if it was named.
    package func directory() throws(DataProtectionError) -> LowerDirectory {
        guard let entry else { return try LowerDirectory(path) }
        return try entry.directory.directory(entry.name, staying: false)
    }

    package static func exists(_ path: FilePath) -> Bool { path.withPlatformString { access($0, F_OK) } == 0 }
}
