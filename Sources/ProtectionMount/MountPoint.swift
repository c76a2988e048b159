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
    /// It is shown by a mount of protectfs already: pages would be cached a second time, and no lock would drop them.
    case isMount(FilePath)
    /// The system gives no thread, or no file descriptor, that a lock would need.
    case noThread(Errno)
    /// libfuse or the kernel refused; libfuse has printed why to standard error.
    case refused(FilePath)
    /// The connection to the kernel broke.
    case failed(Errno)
}

/// The directory in which a mount shows the plaintext. It is empty, and nobody can write to it while nothing is mounted: a program that
/// saves there after an unmount would leave plaintext.
package struct MountPoint: Sendable {
    package let path: FilePath
    private let directory: LowerDirectory
    /// As it was found.
    private let mode: mode_t

    /// - Parameters:
    ///   - path: an empty directory of this user.
    ///   - source: the directory that is to be mounted.
    package init(_ path: FilePath, for source: FilePath) throws(MountError) {
        let source = try Self.resolved(source)
        // Found without a look at it: a server that has died, or hangs, cannot be asked.
        let mounts: MountTable
        let named: FilePath
        do throws(DataProtectionError) { (mounts, named) = (try MountTable.seen(), try path.absolute()) } catch {
            throw .unusable(path, error.errno)
        }
        if mounts.mounts.contains(where: { $0.point == named && $0.type == MountNote.type }) { throw .inUse(named) }
        let point = try Self.resolved(path)
        guard !point.starts(with: source), !source.starts(with: point) else { throw .nested(source, point: point) }
        for place in [source, point] {
            guard let mount = mounts.mount(of: place), mount.type == MountNote.type else { continue }
            throw mount.point == point ? MountError.inUse(point) : MountError.isMount(place)
        }
        self.path = point
        let status: stat
        let isFirstOnItsFileSystem: Bool
        var isEmpty = true
        do throws(DataProtectionError) {
            directory = try LowerDirectory(point)
            status = try directory.status()
            isFirstOnItsFileSystem = try LowerDirectory(point.appending("..")).status().st_dev != status.st_dev
            _ = try directory.forEachName { _ in
                isEmpty = false
                return false
            }
        } catch { throw .unusable(point, error.errno) }
        if isFirstOnItsFileSystem { throw .inUse(point) }
        guard isEmpty else { throw .notEmpty(point) }
        mode = status.st_mode & 0o7777
        // fusermount3(1) mounts only on a directory that the user can write to.
        guard fchmod(directory.descriptor, 0o700) == 0 else { throw .unusable(point, Errno(rawValue: errno)) }
    }

    /// Call this when the mount is there: it changes the directory below.
    func close() { _ = fchmod(directory.descriptor, 0o500) }  // an empty directory as it was is all that is lost

    /// Nothing is mounted there.
    func restore() { _ = fchmod(directory.descriptor, mode) }

    private static func resolved(_ path: FilePath) throws(MountError) -> FilePath {
        do throws(DataProtectionError) { return try path.resolved() } catch { throw .unusable(path, error.errno) }
    }
}
