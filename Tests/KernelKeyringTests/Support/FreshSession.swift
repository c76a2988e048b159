import CKeyutils
import Glibc
import SystemPackage

/// A thread with a new, empty session keyring, as services of systemd and `keyctl session -` have: it does not possess
/// the user keyring. Keyrings are per thread in Linux, so no other test notices.
enum FreshSession {
    private final class Work: @unchecked Sendable {  // read by one thread, and by its maker after the join
        let body: () -> Void
        init(_ body: @escaping () -> Void) { self.body = body }
    }

    /// Runs `body` there and waits for it.
    static func run<R>(_ body: () throws -> R) throws -> R {
        var result: Result<R, any Error> = .failure(Errno.resourceTemporarilyUnavailable)
        withoutActuallyEscaping(body) { body in
            let work = Work {
                guard keyctl_join_session_keyring(nil) >= 0 else {
                    result = .failure(Errno(rawValue: errno))
                    return
                }
                result = Result { try body() }
            }
            var thread = pthread_t()
            let argument = Unmanaged.passUnretained(work).toOpaque()
            let failure = pthread_create(
                &thread, nil,
                { argument in
                    Unmanaged<Work>.fromOpaque(argument!).takeUnretainedValue().body()
                    return nil
                }, argument)
            if failure == 0 { pthread_join(thread, nil) }
        }
        return try result.get()
    }
}
