import DurableFiles
import Glibc
import SystemPackage

/// What the thread of ``LockListener`` waits for: the `run/` directories of the keybags that are listened to.
package struct RunWatch: ~Copyable {
    /// The keybags' directories.
    package private(set) var keybags: Set<FilePath> = []
    private var watch: DirectoryWatch?
    /// Why a directory is looked at once a second, where that is so.
    private var unwatched: [FilePath: Errno] = [:]
    private var hasWarned: Set<FilePath> = []
    /// Whether a directory has moved, or could not be watched.
    private var isStale = false

    package init() {}

    /// Watches the keybags of all these, and no others.
    package mutating func follow(_ observers: some Collection<LockListener.Observer>) {
        let wanted = Set(observers.map(\.keybag))
        guard isStale || wanted != keybags else { return }
        (keybags, isStale, unwatched) = (wanted, false, [:])
        // All of it anew, which costs less than knowing which of them lead to the same directory.
        watch = nil
        do throws(Errno) { watch = try DirectoryWatch() } catch { for keybag in keybags { unwatched[keybag] = error } }
        for keybag in keybags where unwatched[keybag] == nil { add(keybag) }
        hasWarned.formIntersection(unwatched.keys)
        for (keybag, error) in unwatched where hasWarned.insert(keybag).inserted {
            for observer in observers where observer.keybag == keybag { observer.warn(.lockStatePolled(keybag, error)) }
        }
        isStale = !unwatched.isEmpty
    }

    private mutating func add(_ keybag: FilePath) {
        let run = RunDirectory(of: keybag)
        do throws(DataProtectionError) { try run.make() } catch {
            unwatched[keybag] = error.errno
            return
        }
        do throws(Errno) {
            try watch?.addPlace(of: keybag)
            try watch?.add(run.path)
            if run.isShared { unwatched[keybag] = .notSupported }
        } catch {
            unwatched[keybag] = error
        }
    }

    /// Waits until something may have happened.
    package mutating func wait(_ doorbell: ListenerDoorbell) {
        var files = [doorbell.bell, doorbell.timer, watch?.descriptor ?? -1].map {
            pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
        }
        poll(&files, nfds_t(files.count), unwatched.isEmpty ? -1 : 1000)
        doorbell.hear()
        if let isInPlace = watch?.drain(watching: RunDirectory.name), !isInPlace { isStale = true }
    }
}
