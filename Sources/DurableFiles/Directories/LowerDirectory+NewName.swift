import CDirectoryEntries
import Glibc
import SystemPackage

/// Names that take no other file's place, without link(2): on bindfs, mergerfs and sshfs a link is a second inode with a cache of its own,
/// and exFAT has no links.
extension LowerDirectory {
    /// renameat2(2) with RENAME_NOREPLACE, or ``renameOverPlaceholder(_:to:)`` where the file system does not know that.
    ///
    /// - Throws: `exists` if something has the new name.
    package func renameIfFree(_ old: FilePath.Component, to new: FilePath.Component) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            _ = try retrying(path.entry(new), "renameat2") {
                old.withPlatformString { old in
                    new.withPlatformString { new in protectfs_rename_new(descriptor, old, descriptor, new) }
                }
            }
        } catch .system(_, _, .fileExists) {
            throw .exists(path.entry(new))
        } catch {
            guard [.invalidArgument, .noFunction, .notSupported].contains(error.errno) else { throw error }
            try renameOverPlaceholder(old, to: new)
        }
    }

    /// Takes the new name with an empty file that must not be there yet, and renames over that. No directory can be renamed so.
    ///
    /// A kill in between leaves the empty file. The C calls are `openat` with O_EXCL, and `renameat`.
    /// - Throws: `exists` if something has the new name, or if somebody has written into the empty file meanwhile.
    package func renameOverPlaceholder(
        _ old: FilePath.Component, to new: FilePath.Component
    ) throws(DataProtectionError) {
        let place = path.entry(new)
        do throws(DataProtectionError) {
            let opened = try retrying(place, "openat") {
                new.withPlatformString {
                    openat(descriptor, $0, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
                }
            }
            close(opened)
        } catch .system(_, _, .fileExists) {
            throw .exists(place)
        }
        let placeholder = try status(of: new)
        do throws(DataProtectionError) {
            guard try isEmpty(new, placeholder) else { throw .exists(place) }
            try rename(old, to: new)
        } catch {
            if (try? isEmpty(new, placeholder)) == true { try? remove(new) }
            throw error
        }
    }

    private func isEmpty(_ name: FilePath.Component, _ placeholder: stat?) throws(DataProtectionError) -> Bool {
        guard let placeholder, let now = try status(of: name) else { return false }
        return now.isSameItem(as: placeholder) && now.st_size == 0
    }
}
