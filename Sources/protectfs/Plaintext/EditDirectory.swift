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
/// Removing is unlinking: there is no medium that could keep what was there. It is done by descriptors of the directories, so that links
/// lead nowhere.
final class EditDirectory {
    var path: FilePath { directory.path }
    private let parent: LowerDirectory
    private let directory: LowerDirectory

    var copies: FilePath { path.appending(Self.copies) }
    var saved: FilePath { path.appending(Self.saved) }
    var saving: FilePath { path.appending(Self.saving) }
    var temporary: FilePath { path.appending(Self.temporary) }

    private static let prefix = "protectfs-edit-"
    private static let copies: FilePath.Component = "copy"
    private static let saved: FilePath.Component = "saved"
    private static let saving: FilePath.Component = "saving"
    private static let temporary: FilePath.Component = "tmp"

    /// Makes one in `parent`.
    ///
    /// - Throws: status 69, 71, 74.
    init(in parent: LowerDirectory) throws(Failure) {
        self.parent = parent
        do throws(DataProtectionError) { directory = try Self.make(in: parent) } catch { throw Failure(error) }
        do throws(DataProtectionError) {
            for name in [Self.copies, Self.temporary] { _ = try directory.subdirectory(name) }
        } catch {
            remove()
            throw Failure(error)
        }
    }

    private static func make(in parent: LowerDirectory) throws(DataProtectionError) -> LowerDirectory {
        var triesLeft = 100
        while true {
            let name = FilePath.Component(prefix + String(UInt128.random(in: 0...UInt128.max), radix: 36))!
            do throws(DataProtectionError) {
                guard try parent.subdirectory(name).isNew else { continue }
            } catch .system(_, _, .noSuchFileOrDirectory) where triesLeft > 0 {
                triesLeft -= 1
                continue
            }
            // Somebody who clears up may come between the two calls: then it has gone, and another one is made.
            if let directory = lock(name, in: parent, waiting: true) { return directory }
        }
    }

    /// Takes all plaintext away. The empty directories stay, so that the editor can save again.
    func wipe() {
        for name in [Self.copies, Self.temporary] { try? directory.directory(name).removeContents() }
        for name in [Self.saved, Self.saving] { try? directory.remove(name) }
    }

    /// Takes all of it away.
    func remove() {
        do throws(DataProtectionError) { try Self.remove(directory, in: parent) } catch {
            StandardError.line(
                .warning, "the plain copy in \(quoted(path)) could not be removed: \(error.errno.spoken)")
        }
    }

    /// Takes away what dead processes left: those that were ended by SIGKILL, and their guardians too.
    ///
    /// Only where nobody else could have given such a name to another directory.
    static func removeLeftovers() {
        for parent in MemoryStorage.directories {
            for name in (try? parent.names()) ?? [] where name.string.hasPrefix(prefix) {
                guard let directory = lock(name, in: parent, waiting: false) else { continue }
                try? remove(directory, in: parent)
            }
        }
    }

    /// Opens a directory of ours and takes its lock; nil if somebody holds it, or it is another user's, or gone.
    private static func lock(
        _ name: FilePath.Component, in parent: LowerDirectory, waiting: Bool
    ) -> LowerDirectory? {
        guard let directory = try? parent.directory(name), let held = try? directory.status(), held.st_uid == geteuid(),
            flock(directory.descriptor, LOCK_EX | (waiting ? 0 : LOCK_NB)) == 0,
            let named = try? parent.status(of: name), named.isSameItem(as: held)
        else { return nil }
        return directory
    }

    private static func remove(_ directory: LowerDirectory, in parent: LowerDirectory) throws(DataProtectionError) {
        // What cannot be removed keeps the directory from being removed.
        try? directory.removeContents()
        guard let name = directory.path.lastComponent else { return }
        do throws(DataProtectionError) { try parent.unlink(name, isDirectory: true) } catch .system(
            _, _, .noSuchFileOrDirectory)
        {}
    }
}
