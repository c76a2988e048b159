import DataProtection
import Glibc

/// `downloads/runner`: its flock(2) is held by the one process that runs the list, so that nothing is downloaded twice.
final class RunnerLock: Sendable {
    static let name = "runner"
    private let descriptor: Int32

    /// - Parameter directory: `downloads` in the keybag's directory.
    /// - Throws: `alreadyRunning`.
    init(in directory: FilePath) throws(DownloadError) {
        let path = directory.appending(Self.name)
        let flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW
        descriptor = path.withPlatformString { Glibc.open($0, flags, 0o600) }
        guard descriptor >= 0 else { throw .protection(.system(path, operation: "open", Errno(rawValue: errno))) }
        var isHeld = false
        var error: Int32 = 0
        // A process that asks whether the lock is held holds it for a moment.
        for attempt in 0..<20 where !isHeld {
            if attempt > 0 { usleep(5_000) }
            isHeld = flock(descriptor, LOCK_EX | LOCK_NB) == 0
            error = errno
        }
        guard isHeld else {
            close(descriptor)
            guard error == EWOULDBLOCK else {
                throw .protection(.system(path, operation: "flock", Errno(rawValue: error)))
            }
            throw .alreadyRunning(directory)
        }
    }

    // Closing alone is not enough: a child between fork(2) and exec(2) has the open file too.
    deinit {
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    /// Whether somebody runs the list now.
    static func isHeld(in directory: FilePath) -> Bool {
        let flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW
        let file = directory.appending(name).withPlatformString { Glibc.open($0, flags) }
        guard file >= 0 else { return false }
        defer { close(file) }
        guard flock(file, LOCK_SH | LOCK_NB) == 0 else { return errno == EWOULDBLOCK }
        flock(file, LOCK_UN)
        return false
    }
}
