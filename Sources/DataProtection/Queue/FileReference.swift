import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// Which file is meant, for somebody who looks for it later: it may have been renamed in its directory by then.
struct FileReference: Hashable {
    let device: UInt64
    let inode: UInt64
    /// Absolute, without links in its directory.
    let path: FilePath
    /// Where it is known: an inode number is given to another file once the first is gone, a file id never is.
    var fileID: FileID?

    /// The file under its old name, or under another one in the same directory; nil if it is neither there nor there.
    ///
    /// - Throws: `damaged` if a file id is wanted and cannot be read, `system`.
    func find() throws(DataProtectionError) -> LowerFile? {
        if let file = try findInPlace() { return file }
        for name in (try? DirectoryListing.components(of: path.directory)) ?? [] {
            var status = stat()
            let candidate = path.directory.appending(name)
            guard candidate.withPlatformString({ lstat($0, &status) }) == 0, UInt64(status.st_ino) == inode else {
                continue
            }
            if let file = try open(candidate) { return file }
        }
        return nil
    }

    /// The file under its old name; nil if it is not there.
    func findInPlace() throws(DataProtectionError) -> LowerFile? { try open(path) }

    private func open(_ path: FilePath) throws(DataProtectionError) -> LowerFile? {
        guard let file = try Self.openRegular(path) else { return nil }
        let opened = try file.status()
        guard UInt64(opened.st_dev) == device, UInt64(opened.st_ino) == inode else { return nil }
        if let fileID, try file.fileID() != fileID { return nil }
        return file
    }

    /// For reading and writing; nil if there is no regular file of that name.
    static func openRegular(_ path: FilePath) throws(DataProtectionError) -> LowerFile? {
        var status = stat()
        guard path.withPlatformString({ lstat($0, &status) }) == 0, status.st_mode & S_IFMT == S_IFREG else {
            return nil
        }
        return try LowerFile(path, flags: O_RDWR | O_NOFOLLOW | O_NONBLOCK)
    }
}

extension FileReference {
    /// A protected file that may have no name yet: `path` is what it is to be called.
    init(_ file: LowerFile, _ fileID: FileID, named path: FilePath) throws(DataProtectionError) {
        let status = try file.status()
        let directory = try path.directory.resolved()
        self.init(
            device: UInt64(status.st_dev), inode: UInt64(status.st_ino),
            path: path.lastComponent.map { directory.appending($0) } ?? directory, fileID: fileID)
    }
}

extension LowerFile {
    /// The id of a protected file, unverified; nil if this is none.
    func fileID() throws(DataProtectionError) -> FileID? {
        do throws(DataProtectionError) {
            return try withByteLock(OpenFile.slotLock, .shared) { () throws(DataProtectionError) in
                try ClassChange.heads(of: self).head.prefix.fileID
            }
        } catch .notProtected {
            return nil
        }
    }
}
