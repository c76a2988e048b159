import CKeyutils
import Glibc
import POSIXThreads
import SystemPackage

/// A thread with a new, empty session keyring, as services of systemd and `keyctl session -` have: it does not possess
/// the user keyring. Keyrings are per thread in Linux, so no other test notices.
enum FreshSession {
    /// Runs `body` there and waits for it.
    static func run<R>(_ body: () throws -> R) throws -> R {
        var result: Result<R, any Error> = .failure(Errno.resourceTemporarilyUnavailable)
        try POSIXThread.run {
            guard keyctl_join_session_keyring(nil) >= 0 else {
                result = .failure(Errno(rawValue: errno))
                return
            }
            result = Result { try body() }
        }
        return try result.get()
    }
}
