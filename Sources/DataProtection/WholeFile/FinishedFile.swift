import Glibc
import ProtectionFormat
package import ProtectionKeys
package import SystemPackage

/// Files that are written under a name for the time being, over days and by more than one process, and published when they are
/// finished: a download's.
extension ProtectedFile {
    /// Creates a file that must not be there yet, in the form of large ones. See ``create(_:as:raiseTo:keybag:)``.
    package static func createLarge(
        _ path: FilePath, as protectionClass: ProtectionClass, keybag: Keybag
    ) throws(DataProtectionError) -> ProtectedFile {
        let new = try NewFile(path, as: protectionClass, layout: .large, keybag: keybag)
        try new.finish()
        try new.publish(replacing: false)
        return ProtectedFile(try new.handle())
    }

    /// Brings what was written so far to the disk, so that the next ``sync()`` has little left to do. Commits nothing, and holds
    /// nobody up: writes go on meanwhile.
    ///
    /// - Throws: `system`. The kernel tells of a failed write once: whoever gets this error must not call the file synced later.
    package func flushAhead() throws(DataProtectionError) { try lower.flush() }

    /// The 16 bytes that name the file whatever it is called, unverified. Needs no key.
    package static func fileID(at path: FilePath) throws(DataProtectionError) -> [UInt8] {
        guard let id = try LowerFile.forHeads(of: path, flags: O_NOFOLLOW).fileID() else { throw .notProtected(path) }
        return id.bytes
    }
}

extension Keybag {
    /// Gives a finished, closed file its name, and its class: now if unlocked, else after the next unlock. Needs no key.
    ///
    /// That it is to be raised is noted before it has its name: killed at any moment, the file is raised all the same.
    /// - Parameters:
    ///   - temporary: in the same directory as `path`.
    ///   - replacing: false: something under that name is the error `exists`, and nothing has happened.
    ///   - raiseTo: nil: it keeps the class that it has.
    /// - Throws: `wouldWeaken` if `raiseTo` is weaker than its class, `exists`, `system`.
    package func publish(
        _ temporary: FilePath, as path: FilePath, replacing: Bool, raiseTo: ProtectionClass?
    ) throws(DataProtectionError) {
        let entry = try DirectoryEntry(path)
        guard let old = temporary.lastComponent, temporary.directory == path.directory else { throw .outOfRange(path) }
        let file = try LowerFile.forHeads(of: temporary, flags: O_NOFOLLOW)
        let raise =
            try raiseTo.map { goal throws(DataProtectionError) in
                try QueuedRaise(file, named: path, to: goal, keybag: self)
            } ?? nil
        do throws(DataProtectionError) {
            if replacing {
                try entry.directory.rename(old, to: entry.name)
            } else {
                try entry.directory.renameIfFree(old, to: entry.name)
            }
        } catch {
            raise?.withdraw()
            throw error
        }
        try entry.directory.flush()
        raise?.perform()
    }

    /// The name of the directory in which the list of downloads is kept. FORMAT.md §2.14.
    package static let downloadsName = "downloads"
    /// In that directory: the file that holds the key of the list's values.
    package static let downloadsKeyName = "key"

    /// The protected files that the keybag itself keeps in its directory: a rotation must reach them, wherever its roots are.
    package var ownFiles: [FilePath] {
        let key = directory.appending(Self.downloadsName).appending(Self.downloadsKeyName)
        return OwnDirectory.exists(key) ? [key] : []
    }
}
