import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import SystemPackage

/// What later copies in a backup took the place of. FORMAT.md §2.16.
///
/// An earlier copy of `files/a/b` is `earlier/a/b`, if nobody could verify the later one because its class key was not there. It goes when
/// that has been verified. Bytes that another program appended to a copy are `appended/a/b.appended-1`, unless the later copy has them too.
package struct EarlierCopies {
    private static let name: FilePath.Component = "earlier"
    private static let appendedName: FilePath.Component = "appended"
    /// Both directories.
    static let names = [name, appendedName]

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
    ///
    /// - Returns: whether it is kept.
    package func keep(_ file: LowerFile, of entry: DirectoryEntry) throws(DataProtectionError) -> Bool {
        let place = try descent(to: entry, in: Self.name)
        var isKept = true
        do throws(DataProtectionError) { try place.directory.link(file, as: entry.name) } catch {
            guard error.errno == .fileExists else { throw error }
            isKept = false
        }
        try place.flush()
        return isKept
    }

    /// In an attribute of an earlier copy that no later one may take away by itself.
    private static let held = "user.protectfs.held"

    /// Marks an earlier copy as one that stays. Where there are no attributes, it stays as long as its content counter is the higher one.
    package func hold(_ file: LowerFile) { try? ExtendedAttributes.set(Self.held, to: [1], of: file, flags: 0) }

    package func isHeld(_ file: LowerFile) -> Bool { (try? ExtendedAttributes.value(Self.held, of: file)) != nil }

    /// Saves what another program appended to a copy that is about to go, with a warning, unless the one that takes its place has it too.
    package func keepAppendedBytes(
        of old: LowerFile, _ entry: DirectoryEntry, unlessIn copy: LowerFile, _ keybag: Keybag
    ) throws(DataProtectionError) {
        var place: Descent?
        let saved = try ReplacedFile(old).keepAppendedBytes(keybag, unlessIn: copy) { () throws(DataProtectionError) in
            let found = try descent(to: entry, in: Self.appendedName)
            place = found
            return DirectoryEntry(entry.name, in: found.directory)
        }
        if let place { try place.flush() }
        if let saved { keybag.warn(saved) }
    }

    /// From the backup's own directory through the one of that name in it to the one that corresponds to the directory of a copy. They are
    /// made if need be.
    private func descent(
        to entry: DirectoryEntry, in tree: FilePath.Component
    ) throws(DataProtectionError) -> Descent {
        var way = Descent(directory)
        for name in [tree] + names(above: entry) {
            do throws(DataProtectionError) { try way.make(name) } catch .exists(let place) {
                throw .system(place, operation: "mkdir", .notDirectory)
            }
        }
        return way
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

extension FileState {
    /// Whether it has commits of the same file that another state does not have.
    func isLater(than other: FileState) -> Bool {
        heads.head.prefix.fileID == other.heads.head.prefix.fileID && record.counter > other.record.counter
    }
}
