import Glibc
import POSIXThreads
import SystemPackage

/// What happens to a user's sessions, as it happens: locks, unlocks, screensavers, sleep, logout.
///
/// From systemd-logind, which is believed, and from screensavers, which can only lock. For one reader; following ends when
/// nobody reads any more.
///
///     for await event in try SessionEvents() {
///         if case .locked = event { … }
///     }
public struct SessionEvents: AsyncSequence, Sendable {
    public typealias Element = SessionEvent

    private let stream: AsyncStream<SessionEvent>

    /// Begins to follow the sessions of a user. A session that is locked already is the first event.
    ///
    /// - Throws: `noBus` where there is neither a system bus nor a session bus.
    public init(of uid: uid_t = getuid()) throws(SessionLockError) { try self.init(of: uid, addresses: [:]) }

    /// - Parameter addresses: where a bus is, if not where it usually is.
    init(of uid: uid_t, addresses: [Bus: String]) throws(SessionLockError) {
        let (stream, continuation) = AsyncStream<SessionEvent>.makeStream()
        var end: [Int32] = [-1, -1]
        guard pipe(&end) == 0 else { throw .system(Errno(rawValue: errno)) }
        for descriptor in end { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        let (reader, writer) = (end[0], end[1])
        do throws(SessionLockError) {
            let watch = try SessionWatch(uid: uid, addresses: addresses) { continuation.yield($0) }
            try Self.follow(watch, until: reader)
        } catch {
            close(reader)
            close(writer)
            throw error
        }
        continuation.onTermination = { _ in close(writer) }
        self.stream = stream
    }

    public func makeAsyncIterator() -> AsyncStream<SessionEvent>.Iterator { stream.makeAsyncIterator() }
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
