import Glibc
import POSIXThreads
import SystemPackage

/// What happens to a user's sessions, as it happens: locks, unlocks, screensavers, sleep, logout.
///
/// From systemd-logind, which is believed, and from screensavers, which can only lock. Following ends when this goes.
///
///     let events = try SessionEvents { event in
///         if case .locked = event { … }
///     }
public final class SessionEvents: Sendable {
    /// Closed when this goes, which the thread sees at the other end.
    private let writer: Int32

    /// Begins to follow the sessions of a user. A session that is locked already is the first event.
    ///
    /// - Parameter tell: called on one thread, which is made here and once only; what happened before on the calling one.
    /// - Throws: `noBus` where there is neither a system bus nor a session bus.
    public convenience init(
        of uid: uid_t = getuid(), _ tell: @escaping @Sendable (SessionEvent) -> Void
    ) throws(SessionLockError) { try self.init(of: uid, addresses: [:], tell) }

    /// - Parameter addresses: where a bus is, if not where it usually is.
    init(
        of uid: uid_t, addresses: [Bus: String], _ tell: @escaping @Sendable (SessionEvent) -> Void
    ) throws(SessionLockError) {
        var end: [Int32] = [-1, -1]
        guard pipe(&end) == 0 else { throw .system(Errno(rawValue: errno)) }
        for descriptor in end { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        let (reader, writer) = (end[0], end[1])
        do throws(SessionLockError) {
            let watch = try SessionWatch(uid: uid, addresses: addresses, tell: tell)
            try Self.follow(watch, until: reader)
        } catch {
            close(reader)
            close(writer)
            throw error
        }
        self.writer = writer
    }

    deinit { close(writer) }
}

extension SessionEvents {
    /// Starts the thread of `watch`.
    ///
    /// - Parameter end: closed by the thread when it ends.
    private static func follow(_ watch: sending SessionWatch, until end: Int32) throws(SessionLockError) {
        do throws(POSIXThread.Refusal) {
            try POSIXThread.detach {
                watch.run(until: end)
                close(end)
            }
        } catch {
            throw .system(Errno(rawValue: error.code))
        }
    }
}
