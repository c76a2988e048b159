import Glibc
import SystemPackage

/// Somebody who turns the messages of a bus into events.
protocol BusListener: AnyObject {
    var connection: BusConnection { get }
    /// Says what is to be heard, and asks what was before.
    ///
    /// - Parameter again: after a time in which the source was not heard.
    func begin(again: Bool) throws(Errno) -> [SessionEvent]
    func events(of message: BusMessage) throws(Errno) -> [SessionEvent]
}

/// Follows both buses, on one thread that waits in poll(2); connects again when one is lost.
final class SessionWatch {
    /// A bus, or the search for it.
    private struct Line {
        let bus: Bus
        let source: SessionSource
        var listener: (any BusListener)?
        /// When it is looked for again, in microseconds of CLOCK_MONOTONIC.
        var nextSearch: UInt64 = 0
        var pause: UInt64 = Line.shortestPause

        static let shortestPause: UInt64 = 100_000
        static let longestPause: UInt64 = 10_000_000
    }

    private static let messagesInTurn = 64

    private let uid: uid_t
    private let addresses: [Bus: String]
    private var lines: [Line] = [Line(bus: .system, source: .logind), Line(bus: .session, source: .screensaver)]
    private var sessions = LoginSessions()
    private let monitor = LoginMonitor()
    /// Whether the sessions have to be listed again.
    private var isChanged = false
    private let tell: (SessionEvent) -> Void

    /// Connects to whatever there is.
    ///
    /// - Parameter addresses: where a bus is, if not where it usually is.
    /// - Throws: `noBus` if there is nothing.
    init(
        uid: uid_t, addresses: [Bus: String], tell: @escaping (SessionEvent) -> Void
    ) throws(SessionLockError) {
        (self.uid, self.addresses, self.tell) = (uid, addresses, tell)
        let failures = lines.indices.map { open($0, again: false) }
        if let system = failures[0], let session = failures[1] { throw .noBus(system: system, session: session) }
        for index in lines.indices where failures[index] != nil { tell(.lost(lines[index].source)) }
    }

    /// Follows until the other end of `end`, a pipe, is closed.
    func run(until end: Int32) {
        while true {
            for index in lines.indices {
                if lines[index].listener == nil { search(index) }
                process(index)
            }
            if isReadable(end) { return }
        }
    }

    /// Looks for a bus that is not there, if it is time to.
    private func search(_ index: Int) {
        guard microseconds() >= lines[index].nextSearch else { return }
        _ = open(index, again: true)
    }

    /// - Returns: what is in the way.
    private func open(_ index: Int, again: Bool) -> Errno? {
        do throws(Errno) {
            let connection = try BusConnection(to: lines[index].bus, at: addresses[lines[index].bus])
            let listener: any BusListener =
                lines[index].source == .logind
                ? LoginManager(connection, uid: uid, known: sessions) { [unowned self] in sessions = $0 }
                : Screensavers(connection)
            let events = try listener.begin(again: again)
            lines[index].listener = listener
            lines[index].pause = Line.shortestPause
            for event in events { tell(event) }
            return nil
        } catch {
            lines[index].nextSearch = microseconds() + lines[index].pause
            lines[index].pause = min(2 * lines[index].pause, Line.longestPause)
            return error
        }
    }

    private func process(_ index: Int) {
        guard let listener = lines[index].listener else { return }
        do throws(Errno) {
            if isChanged, let logind = listener as? LoginManager {
                isChanged = false
                for event in try logind.listAgain() { tell(event) }
            }
            // A few at a time: who floods one bus must not keep the other one from being heard.
            for _ in 0..<Self.messagesInTurn {
                guard let message = try listener.connection.next() else { return }
                for event in try listener.events(of: message) { tell(event) }
            }
        } catch {
            lines[index].listener = nil
            tell(.lost(lines[index].source))
        }
    }

    /// Waits until a bus has something to say, it is time to look for one, or the end has come.
    private func isReadable(_ end: Int32) -> Bool {
        var descriptors = [pollfd(fd: end, events: Int16(POLLIN), revents: 0)]
        var deadline = UInt64.max
        for line in lines {
            guard let listener = line.listener else {
                deadline = min(deadline, line.nextSearch)
                continue
            }
            guard let ready = try? listener.connection.readiness() else { return false }  // processing it says why
            descriptors.append(ready.descriptor)
            deadline = min(deadline, ready.deadline)
        }
        let watched = try? monitor?.readiness()
        if let watched { descriptors.append(watched) }
        let now = microseconds()
        let wait = deadline == UInt64.max ? -1 : deadline > now ? Int32(min((deadline - now) / 1000 + 1, 60_000)) : 0
        poll(&descriptors, nfds_t(descriptors.count), wait)
        if watched != nil, descriptors.last?.revents != 0 {
            monitor?.flush()
            isChanged = true
        }
        return descriptors[0].revents != 0
    }
}
