import DurableFiles
import Glibc
import Keybags
import SystemPackage

/// A note of the class change that is being made, so that one that was killed leaves no old wrap in the file for long.
///
/// Class key C stays in the ring while locked: after a change from C to A that died half way, the old wrap in the stale
/// slot would still open the file. The next lock or unlock of the keybag finishes it, which needs no key, and warns where
/// it cannot. The note is a file in `changing` in the keybag's directory: device and inode number, and the path.
package struct ClassChangeIntent {
    /// Locked while the change is being made: a note that can be locked is a dead process's.
    private let note: LowerFile
    package static let directoryName = "changing"

    /// - Parameter lasting: through a power cut too, which costs two flushes.
    /// - Throws: `system` where no note can be made; a class must not be raised without one.
    package init(_ file: LowerFile, in keybag: FilePath, lasting isLasting: Bool) throws(DataProtectionError) {
        let directory = keybag.appending(Self.directoryName)
        try OwnDirectory.makeLast(directory)
        let status = try file.status()
        let name = directory.appending("\(getpid()).\(UInt64.random(in: 0...UInt64.max))")
        // It appears whole and locked: nobody takes it for a dead process's before it says what it is about.
        let unnamed = try UnnamedFile(name)
        try unnamed.file.write(
            Array("\(status.st_dev) \(status.st_ino) ".utf8) + (try file.path.resolvedName()).bytes, at: 0)
        if isLasting { try unnamed.file.flushAll() }
        try unnamed.takeName(unnamed.entry)
        note = unnamed.file
        if isLasting { try AtomicReplace.flushDirectory(directory) }
    }

    /// Nothing is left to be finished.
    package func finished() {
        try? AtomicReplace.remove(note.path)  // a note too many costs one look at the file
    }

    /// Finishes the changes that dead processes left, and warns of those that it cannot finish.
    package static func finishAll(in keybag: FilePath, warn: (ProtectionWarning) -> Void) {
        let directory = keybag.appending(directoryName)
        var names: [String] = []
        do throws(DataProtectionError) {
            names = try DirectoryListing.namesIfThere(in: directory)
        } catch {
            warn(.classChangesUnknown(directory, error))
        }
        // A lock must not take long, whatever lies there.
        let end = Clock.monotonic() + 1_000_000_000
        for name in names {
            guard Clock.monotonic() < end else { return warn(.classChangesUnknown(directory, .busy(directory))) }
            guard let note = try? LowerFile(directory.appending(name), flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK),
                (try? note.requireRegular()) != nil,
                flock(note.descriptor, LOCK_EX | LOCK_NB) == 0
            else { continue }
            finish(note, until: end, warn)
        }
    }

    private static func finish(_ note: LowerFile, until end: UInt64, _ warn: (ProtectionWarning) -> Void) {
        guard let reference = read(note) else { return }
        do throws(DataProtectionError) {
            guard let file = try reference.find(until: end) else {
                // Deleted, or moved to where nobody finds it: said once.
                warn(.classChangeUnfinished(reference.path, nil))
                return try AtomicReplace.remove(note.path)
            }
            let now = Clock.monotonic()
            try file.lockSlot(.exclusive, waiting: end > now ? end - now : 0)
            try ClassChange.removeStaleWrap(try HeadPair(of: file), file, warn: warn)
            try AtomicReplace.remove(note.path)
        } catch {
            warn(.classChangeUnfinished(reference.path, error))
        }
    }

    private static func read(_ note: LowerFile) -> FileReference? {
        guard let bytes = try? note.bytes(at: 0, count: Int(PATH_MAX) + 64) else { return nil }
        let parts = bytes.split(separator: UInt8(ascii: " "), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let device = UInt64(String(decoding: parts[0], as: UTF8.self)),
            let inode = UInt64(String(decoding: parts[1], as: UTF8.self))
        else { return nil }
        return FileReference(device: device, inode: inode, path: FilePath(bytes: Array(parts[2])))
    }
}
