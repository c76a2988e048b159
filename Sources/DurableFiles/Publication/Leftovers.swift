import Glibc
import Synchronization

/// What killed processes left in directories in which this one converts files by name.
///
/// An upgrade lists its directories anyway. Converting one file by name lists the directory once, and again only after ten times as long as that
/// listing took: a thousand files of a large directory do not cost a thousand listings.
package enum Leftovers {
    private struct Place: Hashable {
        let device: dev_t
        let inode: ino_t
    }

    /// When to look again, in nanoseconds of ``Clock/monotonic()``.
    private static let next = Mutex<[Place: UInt64]>([:])

    /// Takes them away. That one cannot be is no reason to fail.
    package static func remove(in directory: LowerDirectory) {
        guard let status = try? directory.status() else { return }
        let place = Place(device: status.st_dev, inode: status.st_ino)
        guard next.withLock({ $0[place] ?? 0 }) <= Clock.monotonic() else { return }
        let start = Clock.ofThread()
        guard let names = try? directory.names() else { return }
        let again = Clock.monotonic() + 10 * (Clock.ofThread() - start)
        for name in names {
            let entry = DirectoryEntry(name, in: directory)
            if entry.unfinishedMarks != nil { _ = try? UnnamedFile.removeAbandoned(entry) }
        }
        next.withLock {
            if $0.count == 1024 { $0 = [:] }
            $0[place] = again
        }
    }
}
