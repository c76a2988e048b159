import DataProtection
import Glibc
import Synchronization

/// Locks and unlocks of a keybag, for a loop that waits for signals too. Lives as long as the command.
final class EventFeed: Sendable {
    private let events = Mutex<[ProtectedDataEvent]>([])
    /// A pipe that has a byte when there are events.
    private let reader: Int32
    private let writer: Int32
    private let observation = Mutex<LockListener.Observation?>(nil)

    /// Begins to listen, and to notice signals.
    init(of keybag: Keybag) throws {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else {
            throw Failure(.systemRefused, "no pipe can be made: \(Errno(rawValue: errno).spoken)")
        }
        for end in ends {
            // Without the second, a look at an empty pipe would last until something happens: no time would be over.
            guard fcntl(end, F_SETFD, FD_CLOEXEC) == 0, fcntl(end, F_SETFL, O_NONBLOCK) == 0 else {
                let error = Errno(rawValue: errno)
                for end in ends { close(end) }
                throw Failure(.systemRefused, "a pipe cannot be set up: \(error.spoken)")
            }
        }
        (reader, writer) = (ends[0], ends[1])
        Interruption.watch()
        let observation = try keybag.listen { [self] in append($0) }
        self.observation.withLock { $0 = observation }
    }

    private func append(_ new: [ProtectedDataEvent]) {
        events.withLock { $0 += new }
        var byte: UInt8 = 0
        _ = write(writer, &byte, 1)
    }

    /// Waits for events.
    ///
    /// - Parameters:
    ///   - seconds: how long at most; nil: for ever.
    ///   - output: a descriptor that has to be read by somebody, if it is a pipe; nil: none.
    /// - Returns: what has happened since; nothing when the time is over, nobody reads, or the state is to be looked at again.
    /// - Throws: `ExitStatus.interrupted`.
    func next(within seconds: Double? = nil, output: Int32? = nil) throws(ExitStatus) -> [ProtectedDataEvent] {
        guard Interruption.waitForInput(reader, seconds: seconds, output: output) else { throw .interrupted }
        var bytes = [UInt8](repeating: 0, count: 64)
        _ = read(reader, &bytes, bytes.count)
        return events.withLock { events in
            defer { events = [] }
            return events
        }
    }
}
