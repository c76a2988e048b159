import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// Which file is meant, for somebody who looks for it later: it may have been renamed in its directory by then.
package struct FileReference: Hashable {
    /// Only tells whether a disk is away: after the next boot the same disk may have another number.
    package let device: UInt64
    package let inode: UInt64
    /// Absolute, without links in its directory.
    package let path: FilePath
    /// Where it is known: an inode number is given to another file once the first is gone, a file id never is.
    package var fileID: FileID?

    package init(device: UInt64, inode: UInt64, path: FilePath, fileID: FileID? = nil) {
        self.device = device
        self.inode = inode
        self.path = path
        self.fileID = fileID
    }

    /// The file under its old name, or under another name in the same directory; nil if it is under neither.
    ///
    /// - Parameter end: CLOCK_MONOTONIC in nanoseconds: until then a directory is searched.
    /// - Throws: `damaged` if a file id is wanted and cannot be read, `busy` at the end, `system`.
    package func find(until end: UInt64 = .max) throws(DataProtectionError) -> LowerFile? {
        try stored { path throws(DataProtectionError) in
            if let file = try open(path) { return file }
            guard DirectoryDefault.isDirectory(path.directory) else { return nil }
            for name in try DirectoryListing.components(of: path.directory) {
                guard end == .max || Clock.monotonic() < end else { throw .busy(path) }
                let candidate = path.directory.appending(name)
                guard let status = try candidate.status(), UInt64(status.st_ino) == inode,
                    let file = try open(candidate)
                else { continue }
                return file
            }
            return nil
        }
    }

    /// The file under its old name; nil if it is not there. One that was restored from a backup is meant too.
    package func findInPlace() throws(DataProtectionError) -> LowerFile? {
        try stored { path throws(DataProtectionError) in try open(path) }
    }

    /// Opens it where it is stored: a mount may show its plaintext there.
    private func stored(
        _ body: (FilePath) throws(DataProtectionError) -> LowerFile?
    ) throws(DataProtectionError) -> LowerFile? {
        try StoredPlace.find(path) { place throws(DataProtectionError) in
            guard let file = try body(place) else { return nil }
            // Nothing may need the place later.
            return place == path ? file : LowerFile(path: path, descriptor: try file.duplicate())
        }
    }

    private func open(_ path: FilePath) throws(DataProtectionError) -> LowerFile? {
        guard let file = try Self.openRegular(path), try isMeant(file) else { return nil }
        return file
    }

    private func isMeant(_ file: LowerFile) throws(DataProtectionError) -> Bool {
        guard let fileID else { return UInt64(try file.status().st_ino) == inode }
        return try file.fileID() == fileID
    }

    /// For reading and writing heads; nil if there is no regular file of that name.
    package static func openRegular(_ path: FilePath) throws(DataProtectionError) -> LowerFile? {
        do throws(DataProtectionError) {
            guard let status = try path.status(), status.st_mode & S_IFMT == S_IFREG else { return nil }
            return try .forHeads(of: path, flags: O_NOFOLLOW)
        } catch {
            guard error.errno == .noSuchFileOrDirectory || error.errno == .notDirectory else { throw error }
            return nil
        }
    }
}

extension FileReference {
    /// A protected file that may have no name yet: `path` is what it is to be called.
    package init(_ file: LowerFile, _ fileID: FileID, named path: FilePath) throws(DataProtectionError) {
        let status = try file.status()
        let directory = try path.directory.resolvedName()
        self.init(
            device: UInt64(status.st_dev), inode: UInt64(status.st_ino),
            path: path.lastComponent.map { directory.appending($0) } ?? directory, fileID: fileID)
    }
}
