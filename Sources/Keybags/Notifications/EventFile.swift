import DurableFiles
import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// `run/state`: wakes the listeners (``LockListener``). FORMAT.md §2.12.
package struct EventFile: Sendable {
    package static let name = "state"

    package let directory: RunDirectory

    /// The file of the keybag in `directory`.
    package init(of directory: FilePath) { self.directory = RunDirectory(of: directory) }

    private var path: FilePath { directory.path.appending(Self.name) }

    /// Wakes every listener without an event: it asks the ring then.
    package func wake() {
        guard (try? directory.isUsable()) == true else { return }
        let temporary = directory.path.appending("\(Self.name).new")
        try? AtomicReplace.remove(temporary)
        _ = try? LowerFile(temporary, flags: O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
        try? AtomicReplace.remove(temporary)
        try? AtomicReplace.remove(path)
    }

    /// What the file says; nil: nothing that could be understood.
    package func read() -> EventRecord? {
        guard let file = try? LowerFile(regular: path, flags: O_RDONLY | O_NOFOLLOW),
            let bytes = try? file.bytes(at: 0, count: EventRecord.length + 1)
        else { return nil }
        return EventRecord(decoding: bytes)
    }

    /// Replaces the file by rename(2), without any flush: no listener survives a power cut. Without a `run/` there are no listeners, and nothing is
    /// written.
    ///
    /// The caller holds the flock of `transition`, except for a lock that timed out waiting for it. If two writers meet, one event may be lost or
    /// garbled, but every listener is still woken and asks the ring.
    package func write(_ record: EventRecord) throws(DataProtectionError) {
        guard try directory.isUsable() else { return }
        let bytes = try withKeys { () throws(KeyError) in try record.encoded() }
        let temporary = directory.path.appending("\(Self.name).new")
        do throws(DataProtectionError) {
            try AtomicReplace.remove(temporary)
            let file = try LowerFile(temporary, flags: O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
            try file.write(bytes, at: 0)
            try AtomicReplace.rename(temporary, to: path)
        } catch {
            // A full disk: rather no event than an old one. Removing needs no room, and wakes too; where there was no event,
            // or something that cannot be removed, what has just been made does.
            try? AtomicReplace.remove(temporary)
            try AtomicReplace.remove(path)
            throw error
        }
    }
}
