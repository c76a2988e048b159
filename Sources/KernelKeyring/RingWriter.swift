import Glibc
import POSIXThreads
public import SystemPackage

/// Runs changes of the user keyring where they are allowed, whatever session keyring the process has.
///
/// In a fresh session keyring (systemd services, `keyctl session -`) a process does not *possess* `@u`, and setperm,
/// timeout and invalidate of keys in it are EACCES. Keyrings are per thread in Linux, so a thread of its own links `@u`
/// into its thread keyring, acts, unlinks and ends; no other thread, and no Swift task, ever sees that link.
public enum RingWriter {
    /// Runs `body` on a thread that possesses `@u`, and waits for it.
    ///
    /// The link takes some bytes of the user's key quota, and the thread counts against the user's process limit. A user who has exhausted either
    /// must still be able to remove keys, and removal needs no possession. So without quota `body` runs without the link, and without another thread
    /// it runs on the calling thread. If it fails then, the error is EDQUOT or EAGAIN.
    /// - Throws: what `body` throws; else the error of linking `@u` (ENOSYS or EPERM where a container forbids keyrings).
    public static func run<R>(_ body: () throws(Errno) -> R) throws(Errno) -> R {
        var result: Result<R, Errno> = .failure(.resourceTemporarilyUnavailable)
        do throws(POSIXThread.Refusal) {
            try POSIXThread.run {
                var isQuotaFull = false
                do throws(Errno) {
                    do throws(Errno) {
                        try KeySerial.threadKeyring.link(.userKeyring)
                    } catch .diskQuotaExceeded {
                        isQuotaFull = true
                    }
                    defer { try? KeySerial.threadKeyring.unlink(.userKeyring) }  // ends with the thread anyway
                    result = .success(try body())
                } catch {
                    result = .failure(isQuotaFull ? .diskQuotaExceeded : error)
                }
            }
        } catch {
            do throws(Errno) { return try body() } catch _ { throw Errno(rawValue: error.code) }
        }
        return try result.get()
    }
}
