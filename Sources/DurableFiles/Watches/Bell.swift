import Glibc
import ProtectionKeys
import Synchronization
import SystemPackage

/// A file `bell` beside a database: replaced whenever that has changed, so that other processes look at it. It says nothing, and
/// nobody depends on it: after a kill somebody rings again, or looks.
package struct Bell: Sendable {
    package static let name = "bell"

    /// Where the database is.
    package let directory: FilePath

    package init(directory: FilePath) { self.directory = directory }

    /// What tells one ringing from the next.
    struct Stroke: Equatable {
        let file: ino_t
        let seconds: time_t
        let nanoseconds: Int
    }

    /// Nil if there is no bell.
    var lastStroke: Stroke? {
        var status = stat()
        guard directory.appending(Self.name).withPlatformString({ lstat($0, &status) }) == 0 else { return nil }
        return Stroke(file: status.st_ino, seconds: status.st_mtim.tv_sec, nanoseconds: status.st_mtim.tv_nsec)
    }

    /// Wakes everybody who listens. That it cannot be rung keeps nobody from anything.
    package func ring() {
        if replace() { return }
        // No room, no descriptor, or no random number. Setting the times of the bell needs none of them, and is heard too.
        directory.appending(Self.name).withPlatformString { path in
            if utimensat(AT_FDCWD, path, Self.newTimes, AT_SYMLINK_NOFOLLOW) == 0 { return }
            guard errno == ENOENT else {
                _ = unlink(path)  // heard too, but only once
                return
            }
            let file = Glibc.open(path, Self.newFile, 0o600)
            guard file >= 0 else { return }
            futimens(file, Self.newTimes)
            close(file)
        }
    }

    private static let newFile = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW

    /// The kernel's clock stands still for milliseconds, and the number of a file that goes is given to the next one: two strokes could look alike.
    private static var newTimes: [timespec] {
        let stroke = timespec(tv_sec: time(nil), tv_nsec: .random(in: 0..<1_000_000_000))
        return [stroke, stroke]
    }

    private func replace() -> Bool {
        let path = directory.appending(Self.name)
        guard let number = try? Randomness.bytes(8) else { return false }
        let temporary = directory.appending("\(Self.name).\(Hexadecimal.text(number))")
        let file = temporary.withPlatformString { Glibc.open($0, Self.newFile, 0o600) }
        guard file >= 0 else { return false }
        futimens(file, Self.newTimes)
        close(file)
        let isRung = temporary.withPlatformString { old in path.withPlatformString { rename(old, $0) } } == 0
        if !isRung { _ = temporary.withPlatformString { unlink($0) } }
        return isRung
    }
}

/// Hears the bell; where inotify(7) does not work, within a second. Until it is cancelled or goes. Where this process may have no more threads nobody
/// hears it.
package final class BellListener: Sendable {
    private let observation: ChangeListener.Observation?

    /// - Parameter heard: must not wait for anything.
    package init(_ bell: Bell, heard: @escaping @Sendable () -> Void) {
        let last = LastHeard(bell.lastStroke)
        observation = try? ChangeListener.shared.observe(WatchedPlace(bell.directory)) {
            // Names of the database come and go there too.
            if last.becomes(bell.lastStroke) { heard() }
            return nil
        }
    }

    private final class LastHeard: Sendable {
        private let stroke: Mutex<Bell.Stroke?>
        init(_ stroke: Bell.Stroke?) { self.stroke = Mutex(stroke) }

        /// Whether it is another one.
        func becomes(_ new: Bell.Stroke?) -> Bool {
            stroke.withLock { stroke in
                defer { stroke = new }
                return stroke != new
            }
        }
    }
}
