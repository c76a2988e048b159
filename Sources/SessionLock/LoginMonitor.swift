import CSystemd
import Glibc
import SystemPackage

/// Says that something has changed in logind's files of sessions. A session without a seat, as by ssh(1), sends no signal when it ends and a process
/// of it goes on. sd_login_monitor_new(3).
final class LoginMonitor {
    private let handle: OpaquePointer

    /// Nil where logind does not run.
    init?() {
        var handle: OpaquePointer?
        guard sd_login_monitor_new("session", &handle) >= 0, let handle else { return nil }
        self.handle = handle
    }

    deinit { sd_login_monitor_unref(handle) }

    /// What to wait for with poll(2).
    ///
    /// The corresponding C calls are `sd_login_monitor_get_fd` and `sd_login_monitor_get_events`.
    func readiness() throws(Errno) -> pollfd {
        let descriptor = try check(sd_login_monitor_get_fd(handle))
        return pollfd(fd: descriptor, events: Int16(try check(sd_login_monitor_get_events(handle))), revents: 0)
    }

    /// What was said is heard.
    func flush() { sd_login_monitor_flush(handle) }
}
