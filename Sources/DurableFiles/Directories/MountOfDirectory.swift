import CDirectoryEntries
import Glibc
import SystemPackage

/// The mount that a directory is in, to look at other paths in it and at nothing else: another file system may hang and hold up a mere query, for
/// example a network file system whose server is gone.
package struct MountOfDirectory {
    /// An open directory, O_PATH.
    private final class Place {
        let descriptor: Int32
        init?(_ descriptor: Int32) {
            guard descriptor >= 0 else { return nil }
            self.descriptor = descriptor
        }
        deinit { close(descriptor) }

        /// The directory to which `path` leads from here without leaving the mount.
        func directory(_ path: FilePath) -> Place? {
            path.withPlatformString { Place(protectfs_open_within_mount(descriptor, $0)) }
        }

        func isSame(as other: Place) -> Bool {
            var (own, its) = (stat(), stat())
            guard fstat(descriptor, &own) == 0, fstat(other.descriptor, &its) == 0 else { return false }
            return own.st_dev == its.st_dev && own.st_ino == its.st_ino
        }
    }
    private let directory: Place
    private let root: Place
    /// Where the mount is.
    private let point: FilePath

    /// - Returns: nil if the directory is not there, or `/proc` or the kernel (before Linux 5.6) does not say where it is mounted.
    package init?(_ path: FilePath) {
        guard let opened = try? LowerDirectory(path),
            let directory = Place(protectfs_open_within_mount(opened.descriptor, ".")),
            let point = MountTable.mount(ofDescriptor: opened.descriptor)?.point
        else { return nil }
        var root = directory
        while let above = root.directory(".."), !above.isSame(as: root) { root = above }
        (self.directory, self.root, self.point) = (directory, root, point)
    }

    /// Whether an absolute path leads to the directory, within the mount.
    package func leads(_ path: FilePath) -> Bool {
        var rest = path
        guard rest.removePrefix(point) else { return false }
        return root.directory(rest.isEmpty ? "." : rest)?.isSame(as: directory) == true
    }

}
