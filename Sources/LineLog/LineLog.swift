import DataProtection
import Glibc
package import Logging

/// A swift-log handler that writes lines to standard error, as the journal likes them: with a priority in front that
/// sd-daemon(3) describes, and no time, which the journal knows. Elsewhere as the command speaks. What a terminal would obey is written
/// as a number, because paths and program names are in these lines.
package struct LineLog: LogHandler {
    package var metadata: Logger.Metadata = [:]
    package var logLevel = Logger.Level.info
    private let program: String
    private let isForJournal = getenv("JOURNAL_STREAM") != nil

    /// - Parameter program: who speaks.
    package init(_ program: String) { self.program = program }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        let line =
            isForJournal
            ? "<\(event.level.priority)>\(event.message)" : "\(program): \(event.level): \(event.message)"
        var text = printable(line.map { $0.isNewline ? " " : $0 }.reduce(into: "") { $0.append($1) }) + "\n"
        // One call a line: the lines of several processes stay whole.
        text.withUTF8 { Self.write(UnsafeRawBufferPointer($0)) }
    }

    /// Writes nothing that nobody reads at the moment: what a program logs must not hold up what it is for. A terminal is not read after Ctrl-S, a
    /// pipe not while its reader is stopped.
    private static func write(_ line: UnsafeRawBufferPointer) {
        var descriptor = pollfd(fd: output, events: Int16(POLLOUT), revents: 0)
        guard poll(&descriptor, 1, 0) == 1, descriptor.revents & Int16(POLLOUT) != 0 else { return }
        _ = Glibc.write(output, line.baseAddress, line.count)
    }

    /// Standard error. A terminal and a pipe are opened again, so that no write waits and nobody else's descriptor changes.
    private static let output: Int32 = {
        var status = stat()
        guard fstat(2, &status) == 0, isatty(2) == 1 || status.st_mode & S_IFMT == S_IFIFO else { return 2 }
        let opened = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
        return opened >= 0 ? opened : 2
    }()
}

extension Logger.Level {
    /// syslog(3).
    fileprivate var priority: Int {
        switch self {
        case .trace, .debug: 7
        case .info: 6
        case .notice: 5
        case .warning: 4
        case .error: 3
        case .critical: 2
        }
    }
}
