import DataProtection
import DurableFiles
import Glibc
import Keybags
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
    /// A mount over the directory would hide another mount of protectfs in it.
    case containsMount(FilePath, point: FilePath)
    /// A mount over the directory would hide the keybag, which its own server needs.
    case containsKeybag(FilePath, keybag: FilePath)
    /// It is shown by a mount of protectfs already: pages would be cached a second time, and no lock would drop them.
    case isMount(FilePath)
    /// The system gives no thread, or no file descriptor, that a lock would need.
    case noThread(Errno)
    /// libfuse or the kernel refused; libfuse has printed why to standard error.
    case refused(FilePath)
    /// The connection to the kernel broke.
    case failed(Errno)
}

/// The directory in which a mount shows the plaintext: the one with the protected files itself, or an empty one. Nobody can write to an empty one
/// while nothing is mounted: a program that saves there after an unmount would leave plaintext.
package struct MountPoint: Sendable {
    package let path: FilePath
    /// The empty directory, and its mode as it was found; nil if the mount is over the directory with the protected files.
    private let empty: (directory: LowerDirectory, mode: mode_t)?

    /// Whether the mount is over the directory with the protected files.
    package var isInPlace: Bool { empty == nil }

    /// - Parameters:
    ///   - path: an empty directory of this user, or the one that is to be mounted.
    ///   - source: the directory that is to be mounted.
    ///   - keybag: the one that its server uses.
    package init(_ path: FilePath, for source: FilePath, keybag: Keybag) throws(MountError) {
        // Found without a look at it: a server that has died, or hangs, cannot be asked.
        let mounts: MountTable
        let named: FilePath
        do throws(DataProtectionError) { (mounts, named) = (try MountTable.seen(), try path.absolute()) } catch {
            throw .unusable(path, error.errno)
        }
        if mounts.mounts.contains(where: { $0.point == named && $0.type == MountNote.type }) { throw .inUse(named) }
        let (source, point) = (try Self.resolved(source), try Self.resolved(path))
        guard point == source || !point.starts(with: source) && !source.starts(with: point) else {
            throw .nested(source, point: point)
        }
        for place in [source, point] {
            guard let mount = mounts.mount(of: place), mount.type == MountNote.type else { continue }
            throw mount.point == point ? MountError.inUse(point) : MountError.isMount(place)
        }
        self.path = point
        if point == source {
            try Self.requireNothingNeeded(in: source, mounts, keybag: keybag)
            empty = nil
        } else {
            empty = try Self.requireEmpty(point)
        }
    }

    /// - Throws: what a mount over the directory would hide.
    private static func requireNothingNeeded(
        in source: FilePath, _ mounts: MountTable, keybag: Keybag
    ) throws(MountError) {
        // Where `XDG_STATE_HOME` is another one by now, the keybag says where the device key is.
        let recorded = FilePath(bytes: keybag.lastKnown.devicePath)
        for place in [keybag.directory, Locations.deviceKey, recorded] {
            guard let place = try? place.resolved() else { continue }
            guard !place.starts(with: source), !source.starts(with: place) else {
                throw .containsKeybag(source, keybag: keybag.directory)
            }
        }
        let other = mounts.mounts.first { $0.type == MountNote.type && $0.point.starts(with: source) }
        if let other { throw .containsMount(source, point: other.point) }
    }

    private static func requireEmpty(_ point: FilePath) throws(MountError) -> (LowerDirectory, mode_t) {
        let directory: LowerDirectory
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
        // fusermount3(1) mounts only on a directory that the user can write to.
        guard fchmod(directory.descriptor, 0o700) == 0 else { throw .unusable(point, Errno(rawValue: errno)) }
        return (directory, status.st_mode & 0o7777)
    }

    /// Call this when the mount is there: it changes the directory below.
    func makeUnwritable() { setMode(0o500) }  // an empty directory as it was is all that is lost

    /// Nothing is mounted there.
    func restore() { if let empty { setMode(empty.mode) } }

    private func setMode(_ mode: mode_t) { if let empty { _ = fchmod(empty.directory.descriptor, mode) } }

    private static func resolved(_ path: FilePath) throws(MountError) -> FilePath {
        do throws(DataProtectionError) { return try path.resolved() } catch { throw .unusable(path, error.errno) }
    }
}
