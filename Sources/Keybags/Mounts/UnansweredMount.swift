import DurableFiles
import Glibc
import SystemPackage

/// A mount whose server did not answer a lock, or does not live any more: the kernel may have plaintext of `complete` files in its cache, and
/// programs with files open there can read that.
package struct UnansweredMount: Hashable, Sendable {
    package let point: FilePath
    /// The server's process id.
    package let server: Int32
    /// Whether the server lives. It may be stopped, or wait for a disk.
    package let isServed: Bool
    /// The programs that are known to have files open there.
    package let holders: [MountHolder]

    private init(_ note: MountNote, isServed: Bool) {
        (point, server, self.isServed) = (note.point, note.server, isServed)
        holders = MountHolder.all(of: note.mount, device: note.device, at: note.point)
    }

    /// Those of a keybag. Notes of mounts that have gone are removed.
    ///
    /// - Parameter answered: the processes that have answered the lock. A server whose record somebody has removed is not among them.
    /// - Returns: the mounts, and whether these are all.
    static func all(
        ofKeybag keybag: FilePath, answered: Set<Int32>
    ) -> (mounts: [UnansweredMount], areAll: Bool) {
        // Anybody can have put any number of notes there.
        let end = Clock.monotonic() + 1_000_000_000
        var areAll = true
        let (notes, areAllNotes) = FoundMountNote.all(ofKeybag: keybag, until: end)
        let mounts = notes.compactMap { found -> UnansweredMount? in
            guard Clock.monotonic() < end else {
                areAll = false
                return nil
            }
            if found.isServed {
                return answered.contains(found.note.server) ? nil : UnansweredMount(found.note, isServed: true)
            }
            guard MountHolder.mayRemain(of: found.note) else {
                found.remove()
                return nil
            }
            return UnansweredMount(found.note, isServed: false)
        }
        // Somebody may have removed a note, and the server be stopped or not have made it again yet.
        let noted = Set(notes.map(\.note.server))
        let areAllNoted = ServerMark.servers(ofKeybag: keybag).isSubset(of: noted)
        return (mounts.sorted { $0.server < $1.server }, areAll && areAllNotes && areAllNoted)
    }
}
