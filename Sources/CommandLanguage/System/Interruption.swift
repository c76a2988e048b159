import Glibc
import POSIXThreads
import Synchronization

private let isRequestedFlag = Atomic(false)
// Set once, before the handlers that write there.
private nonisolated(unsafe) var wakeUp: (reader: Int32, writer: Int32) = (-1, -1)

private func noteRequest(_ signal: Int32) {
    isRequestedFlag.store(true, ordering: .relaxed)
    var byte: UInt8 = 0
    _ = write(wakeUp.writer, &byte, 1)
}

/// SIGINT, SIGTERM and SIGHUP, noticed between pieces of work. The second one ends the process at once.
package enum Interruption {
    private static let signals = [SIGINT, SIGTERM, SIGHUP]

    /// Begins to watch.
    package static func watch() {
        guard wakeUp.writer < 0 else { return }
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return }  // then a signal ends the process, as without us
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        wakeUp = (ends[0], ends[1])
        isRequestedFlag.store(false, ordering: .relaxed)
        for signal in signals {
            var action = sigaction()
            guard sigaction(signal, nil, &action) == 0, !action.isIgnored else { continue }  // nohup(1)
            action = sigaction()
            action.__sigaction_handler.sa_handler = noteRequest
            action.sa_flags = Int32(bitPattern: UInt32(SA_RESETHAND))
            sigaction(signal, &action, nil)
        }
        unblock(signals)
    }

    /// A parent with threads may have handed down a mask that blocks them.
    package static func unblock(_ signals: [Int32]) {
        var set = sigset_t()
        sigemptyset(&set)
        for signal in signals { sigaddset(&set, signal) }
        sigprocmask(SIG_UNBLOCK, &set, nil)
    }

    /// Whether somebody wants us to stop.
    package static var isRequested: Bool { isRequestedFlag.load(ordering: .relaxed) }

    /// Whether nobody does.
    @Sendable package static func goesOn() -> Bool { !isRequested }

    /// Waits until `descriptor` has something to read or is at its end, the time is over, or nobody reads `output`, a pipe;
    /// false when interrupted.
    package static func waitForInput(_ descriptor: Int32, seconds: Double? = nil, output: Int32? = nil) -> Bool {
        wait([descriptor, wakeUp.reader], output: output, milliseconds: seconds.map(milliseconds) ?? -1)
        return !isRequested
    }

    /// Sleeps; false when interrupted.
    package static func sleep(seconds: Double) -> Bool {
        wait([wakeUp.reader], milliseconds: milliseconds(seconds))
        return !isRequested
    }

    private static func milliseconds(_ seconds: Double) -> Int32 { Int32(min(seconds * 1000, 1e9).rounded(.up)) }

    private static func wait(_ descriptors: [Int32], output: Int32? = nil, milliseconds: Int32) {
        if isRequested { return }
        var waiting = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        if let output { waiting.append(pollfd(fd: output, events: 0, revents: 0)) }
        poll(&waiting, nfds_t(waiting.count), milliseconds)
    }
}

extension sigaction {
    /// Whether the signal is ignored: what our parent wanted.
    package var isIgnored: Bool {
        unsafeBitCast(__sigaction_handler.sa_handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
    }
}

extension Interruption {
    /// Runs `body` once, on a thread of its own, when somebody wants us to stop. Call it after ``watch()``.
    package static func onRequest(_ body: @escaping @Sendable () -> Void) {
        // Without a thread a signal ends the process, as without us: nothing is lost by that either.
        try? POSIXThread.detach {
            while Interruption.sleep(seconds: 1e6) {}
            body()
        }
    }
}
