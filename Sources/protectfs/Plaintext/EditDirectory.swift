import DataProtection
import Glibc

/// The private directory in memory that holds a plain copy while it is edited.
///
///     protectfs-edit-RANDOM/          0700, flock(2) while its maker lives
///         copy/NAME                   what the editor opens
///         saved                       what was sealed last, to tell whether the copy is any different
///         saving                      what is being sealed
///         tmp/                        the editor's TMPDIR
///
/// Removing is unlinking: there is no medium that could keep what was there.
final class EditDirectory {
    let path: FilePath
    private let descriptor: Int32

    var copies: FilePath { path.appending("copy") }
    var saved: FilePath { path.appending("saved") }
    var saving: FilePath { path.appending("saving") }
    var temporary: FilePath { path.appending("tmp") }

    private static let prefix = "protectfs-edit-"

    /// Makes one in `parent`.
    ///
    /// - Throws: status 69, 71, 74.
    init(in parent: FilePath) throws(Failure) {
        while true {
            let name = Self.prefix + String(UInt128.random(in: 0...UInt128.max), radix: 36)
            let path = parent.appending(name)
            guard path.withPlatformString({ mkdir($0, 0o700) }) == 0 else { throw Self.failure(path, Errno.current) }
            // Somebody who clears up may come between the two calls: then it has gone, and another one is made.
            guard let descriptor = Self.lock(path, waiting: true) else { continue }
            (self.path, self.descriptor) = (path, descriptor)
            break
        }
        for directory in [copies, temporary] where directory.withPlatformString({ mkdir($0, 0o700) }) != 0 {
            let error = Errno.current
            remove()
            throw Self.failure(directory, error)
        }
    }

    deinit { close(descriptor) }

    /// Takes all plaintext away. The empty directories stay, so that the editor can save again.
    func wipe() {
        for place in [copies, temporary] { Self.removeContents(of: place) }
        for place in [saved, saving] { _ = place.withPlatformString { unlink($0) } }
    }

    /// Takes all of it away.
    func remove() {
        if !Self.removeAll(path) {
            StandardError.line(
                .warning, "the plain copy in \(quoted(path)) could not be removed: \(Errno.current.spoken)")
        }
    }

    /// Takes away what dead processes left: those that were ended by SIGKILL, and their guardians too.
    static func removeLeftovers() {
        for parent in MemoryStorage.candidates {
            for name in names(in: parent) where name.string.hasPrefix(prefix) {
                let path = parent.appending(name)
                guard let descriptor = lock(path, waiting: false) else { continue }
                _ = removeAll(path)
                close(descriptor)
            }
        }
    }

    /// Opens a directory of ours and takes its lock; nil if somebody holds it, or it is another user's, or gone.
    private static func lock(_ path: FilePath, waiting: Bool) -> Int32? {
        let descriptor = path.withPlatformString { open($0, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) }
        guard descriptor >= 0 else { return nil }
        var (held, named) = (stat(), stat())
        guard fstat(descriptor, &held) == 0, held.st_uid == geteuid(),
            flock(descriptor, LOCK_EX | (waiting ? 0 : LOCK_NB)) == 0,
            path.withPlatformString({ lstat($0, &named) }) == 0, named.st_ino == held.st_ino
        else {
            close(descriptor)
            return nil
        }
        return descriptor
    }

    // MARK: removing

    private static func removeAll(_ path: FilePath) -> Bool {
        removeContents(of: path)
        return path.withPlatformString { rmdir($0) } == 0 || errno == ENOENT
    }

    /// Links are removed, not followed.
    private static func removeContents(of directory: FilePath) {
        for name in names(in: directory) {
            let path = directory.appending(name)
            if path.withPlatformString({ unlink($0) }) != 0, errno == EISDIR { _ = removeAll(path) }
        }
    }

    private static func names(in directory: FilePath) -> [FilePath.Component] {
        (try? DirectoryListing.components(of: directory)) ?? []
    }

    private static func failure(_ path: FilePath, _ errno: Errno) -> Failure {
        Failure(DataProtectionError.system(path, operation: "mkdir", errno))
    }
}
