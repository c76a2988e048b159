import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import SystemPackage

/// Copies in a backup that a later one took the place of before anybody could verify that one: its class key was not there. FORMAT.md §2.16.
///
/// The earlier copy of `files/a/b` is `earlier/a/b`. It goes when the later one has been verified.
package struct EarlierCopies {
    private static let name: FilePath.Component = "earlier"

    /// The backup's.
    private let directory: LowerDirectory
    /// How many components of a copy's path lead to `files`.
    private let depth: Int

    package init(_ backup: Backup) {
        directory = backup.directory
        depth = (backup.path == "." ? 0 : backup.path.components.count) + 1
    }

    /// The earlier copy of a copy; nil if there is none.
    package func copy(of entry: DirectoryEntry) throws(DataProtectionError) -> DirectoryEntry? {
        guard try directory.status(of: Self.name) != nil else { return nil }
        do throws(DataProtectionError) {
            var place = try directory.directory(Self.name)
            for name in names(above: entry) { place = try place.directory(name) }
            return try place.status(of: entry.name) == nil ? nil : DirectoryEntry(entry.name, in: place)
        } catch {
            let nothing: [Errno] = [.noSuchFileOrDirectory, .notDirectory]
            guard nothing.contains(error.errno) else { throw error }
            return nil
        }
    }

    /// Keeps a copy that is about to be replaced, and makes that last. One that is kept already stays, because it is the one that was
    /// verified.
    package func keep(_ file: LowerFile, of entry: DirectoryEntry) throws(DataProtectionError) {
        var path = [directory]
        for name in [Self.name] + names(above: entry) {
            let next: LowerDirectory
            do throws(DataProtectionError) { next = try path.last!.subdirectory(name).0 } catch .exists(let place) {
                throw .system(place, operation: "mkdir", .notDirectory)
            }
            path.append(next)
        }
        do throws(DataProtectionError) { try path.last!.link(file, as: entry.name) } catch {
            guard error.errno == .fileExists else { throw error }
        }
        for directory in path.reversed() { try directory.flush() }
    }

    /// Removes what is kept of a copy, or of all in a directory of copies.
    package func remove(of entry: DirectoryEntry) throws(DataProtectionError) {
        guard let earlier = try copy(of: entry) else { return }
        try earlier.directory.removeTree(earlier.name)
    }

    private func names(above entry: DirectoryEntry) -> [FilePath.Component] {
        Array(entry.directory.path.components.dropFirst(depth))
    }
}
