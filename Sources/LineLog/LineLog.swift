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
        text.withUTF8 { _ = write(2, $0.baseAddress, $0.count) }
    }
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
