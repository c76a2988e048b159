import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import SystemPackage

/// What later copies in a backup took the place of. FORMAT.md §2.16.
///
/// An earlier copy of `files/a/b` is `earlier/a/b`, if nobody could verify the later one because its class key was not there. It goes when
/// that has been verified. There is room for one: a later copy that may have been verified, too, does not give way before it has gone.
/// Bytes that another program appended to a copy are `appended/a/b.appended-1`, unless the later copy has them too.
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

    /// Keeps a copy that is about to be replaced, and makes that last.
    ///
    /// - Returns: nil if it is kept, else what has its place: there is room for one.
    package func keep(_ file: LowerFile, of entry: DirectoryEntry) throws(DataProtectionError) -> DirectoryEntry? {
        let place = try descent(to: entry, in: Self.name)
        var other: DirectoryEntry?
        do throws(DataProtectionError) { try place.directory.link(file, as: entry.name) } catch {
            guard error.errno == .fileExists else { throw error }
            let there = try place.directory.status(of: entry.name)
            // An earlier run may have been killed right after it had kept this one.
            if try there?.isSameItem(as: file.status()) != true {
                other = DirectoryEntry(entry.name, in: place.directory)
            }
        }
        try place.flush()
        return other
    }

    /// An attribute of an earlier copy that no later one may take away by itself.
    private static let held = "user.protectfs.held"
    /// An attribute of a copy that could not be verified when it was made.
    private static let unverified = "user.protectfs.unverified"

    /// Marks an earlier copy as one that stays. Where there are no attributes, it stays as long as its content counter is the higher one.
    package func hold(_ file: LowerFile) {
        try? Self.changing(file) { () throws(DataProtectionError) in
            try ExtendedAttributes.set(Self.held, to: [1], of: file, flags: 0)
        }
    }

    package func isHeld(_ file: LowerFile) -> Bool { (try? ExtendedAttributes.value(Self.held, of: file)) != nil }

    /// Marks a new copy as one that was not verified, where there are attributes.
    package func markUnverified(_ file: LowerFile) {
        try? ExtendedAttributes.set(Self.unverified, to: [1], of: file, flags: 0)
    }

    package func isMarkedUnverified(_ file: LowerFile) -> Bool {
        (try? ExtendedAttributes.value(Self.unverified, of: file)) != nil
    }

    /// Takes the mark away from a copy that has been verified since.
    package func markVerified(_ file: LowerFile) throws(DataProtectionError) {
        guard isMarkedUnverified(file) else { return }
        try Self.changing(file) { () throws(DataProtectionError) in
            try ExtendedAttributes.remove(Self.unverified, of: file)
        }
    }

    /// Whether nobody can have verified a copy; true where there are no attributes, and so no marks.
    package func isUnverified(_ file: LowerFile) -> Bool {
        do throws(DataProtectionError) { _ = try ExtendedAttributes.value(Self.unverified, of: file) } catch {
            return error.errno == .notSupported
        }
        return true
    }

    /// Changes attributes of a file that its owner may not write to.
    private static func changing(
        _ file: LowerFile, _ body: () throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) {
        let mode = try file.status().st_mode & 0o7777
        guard mode & S_IWUSR == 0 else { return try body() }
        _ = try retrying(file.path, "fchmod") { fchmod(file.descriptor, mode | S_IWUSR) }
        defer { fchmod(file.descriptor, mode) }
        try body()
    }

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
