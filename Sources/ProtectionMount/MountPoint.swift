import DataProtection
import DurableFiles
import Glibc
import SystemPackage

/// Why a directory cannot be mounted.
package enum MountError: Error, Hashable, Sendable {
    /// Not a directory, or none that this user may use.
    case unusable(FilePath, Errno)
    /// The mount point has files in it, which nobody would see.
    case notEmpty(FilePath)
    /// Something is mounted there already.
    case inUse(FilePath)
    /// One of the two is inside the other, or they are the same.
    case nested(FilePath, point: FilePath)
    /// libfuse or the kernel refused; libfuse has printed why to standard error.
    case refused(FilePath)
}

/// The directory in which a mount shows the plaintext. It is empty, and nobody can write to it while nothing is mounted: a program that
/// saves there after an unmount would leave plaintext.
package struct MountPoint: Sendable {
    package let path: FilePath
    private let directory: LowerDirectory

    /// - Parameters:
    ///   - path: an empty directory of this user.
    ///   - source: the directory that is to be mounted.
    package init(_ path: FilePath, for source: FilePath) throws(MountError) {
        let point = try Self.resolved(path)
        let source = try Self.resolved(source)
        guard !point.starts(with: source), !source.starts(with: point) else { throw .nested(source, point: point) }
        self.path = point
        let isFirstOnItsFileSystem: Bool
        var isEmpty = true
        do throws(DataProtectionError) {
            directory = try LowerDirectory(point)
            isFirstOnItsFileSystem =
                try LowerDirectory(point.appending("..")).status().st_dev != directory.status().st_dev
            _ = try directory.forEachName { _ in
                isEmpty = false
                return false
            }
        } catch { throw .unusable(point, error.errno) }
        if isFirstOnItsFileSystem { throw .inUse(point) }
        guard isEmpty else { throw .notEmpty(point) }
        // fusermount3(1) mounts only on a directory that the user can write to.
        guard fchmod(directory.descriptor, 0o700) == 0 else { throw .unusable(point, Errno(rawValue: errno)) }
    }

    /// Call this when the mount is there: it changes the directory below.
    func close() { _ = fchmod(directory.descriptor, 0o500) }  // an empty directory as it was is all that is lost

    private static func resolved(_ path: FilePath) throws(MountError) -> FilePath {
        do throws(DataProtectionError) { return try path.resolved() } catch { throw .unusable(path, error.errno) }
    }
}
