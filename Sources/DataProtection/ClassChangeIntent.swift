import Glibc
import SystemPackage

/// A note of the class change that is being made, so that one that was killed leaves no old wrap in the file for long.
///
/// Class key C stays in the ring while locked: after a change from C to A that died half way, the old wrap in the stale
/// slot would still open the file. The next lock or unlock of the keybag finishes it, which needs no key. The note is a
/// file in `changing` in the keybag's directory that holds the path; where it cannot be written, the change goes on without.
struct ClassChangeIntent {
    /// Locked while the change is being made: a note that can be locked is a dead process's.
    private let note: LowerFile?
    private static let directoryName = "changing"

    init(_ path: FilePath, in keybag: FilePath) {
        let directory = keybag.appending(Self.directoryName)
        _ = directory.withPlatformString { mkdir($0, 0o700) }
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        let isKnown = path.withPlatformString { realpath($0, &buffer) } != nil
        let name = directory.appending("\(getpid()).\(UInt64.random(in: 0...UInt64.max))")
        // It appears whole and locked: nobody takes it for a dead process's before it says what it is about.
        guard isKnown, let unnamed = try? UnnamedFile(name),
            (try? unnamed.file.write(buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, at: 0)) != nil,
            (try? unnamed.link(to: name)) != nil
        else {
            note = nil
            return
        }
        note = unnamed.file
    }

    /// Nothing is left to be finished.
    func finished() {
        if let note { try? AtomicReplace.remove(note.path) }  // a note too many costs one look at the file
    }

    /// Finishes the changes that dead processes left.
    static func finishAll(in keybag: FilePath) {
        let directory = keybag.appending(directoryName)
        guard let names = try? DirectoryListing.names(of: directory) else { return }
        for name in names {
            guard let note = try? LowerFile(directory.appending(name), flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK),
                (try? note.requireRegular()) != nil,
                flock(note.descriptor, LOCK_EX | LOCK_NB) == 0
            else { continue }
            if (try? finish(note)) != nil { try? AtomicReplace.remove(note.path) }
        }
    }

    private static func finish(_ note: LowerFile) throws(DataProtectionError) {
        let target = try note.bytes(at: 0, count: Int(PATH_MAX))
        let path = FilePath(bytes: target)
        do throws(DataProtectionError) {
            let file = try LowerFile(path, flags: O_RDWR | O_NOFOLLOW | O_NONBLOCK)
            try file.requireRegular()
            // A lock must not wait for somebody who sits on the file; closing the file gives the lock back.
            guard try file.tryByteLock(OpenFile.slotLock, .exclusive) else { throw .busy(path) }
            try ClassChange.removeStaleWrap(try ClassChange.heads(of: file), file)
        } catch {
            // Gone, or not one of ours any more: nothing to finish. Anything else is tried again next time.
            guard [.noSuchFileOrDirectory, .badMessage, .invalidArgument].contains(error.errno) else { throw error }
        }
    }
}
