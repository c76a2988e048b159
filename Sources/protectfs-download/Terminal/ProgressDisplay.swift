import Glibc
import Synchronization

/// How far downloads are: a bar for each on a terminal, or a line of JSON for each event.
///
/// May be used by several tasks at once.
final class ProgressDisplay: Sendable {
    private struct Shown {
        var rows: [DownloadID: ProgressRow] = [:]
        /// Lines that stand on the terminal now.
        var height = 0
        var lastDrawn: ContinuousClock.Instant?
        /// The reasons that were printed, where there is no terminal.
        var reasons: [DownloadID: String] = [:]
        var isOver = false
    }
    private let order: [DownloadID]
    private let isJSON: Bool
    private let isTerminal: Bool
    private let began = ContinuousClock.now
    private let shown: Mutex<Shown>

    init(_ downloads: [Download], asJSON isJSON: Bool) {
        order = downloads.map(\.id)
        self.isJSON = isJSON
        isTerminal = !isJSON && Self.movesCursor
        let rows = downloads.map { ($0.id, ProgressRow($0)) }
        shown = Mutex(Shown(rows: Dictionary(rows) { first, _ in first }))
    }

    /// - Parameter trouble: why it waits for its next try; nil if it does not.
    func show(_ event: DownloadEvent, of id: DownloadID, _ trouble: DownloadTrouble?) {
        if isJSON {
            // A reader that has gone is no reason to stop downloading.
            try? StandardOutput.write(event.members(of: id, trouble).onOneLine + "\n")
            return
        }
        shown.withLock { shown in
            guard isTerminal else { return say(trouble, of: id, &shown) }
            shown.rows[id]?.take(event, trouble)
            let now = ContinuousClock.now
            let isDue = now - began > .seconds(1) && shown.lastDrawn.map { now - $0 > .milliseconds(100) } ?? true
            if isDue || trouble?.isHopeless == false { draw(&shown) }
        }
    }

    /// A second has gone by: rates change although nothing comes, and a server may not answer.
    func tick() {
        guard isTerminal else { return }
        shown.withLock { draw(&$0) }
    }

    /// Once for each reason.
    private func say(_ trouble: DownloadTrouble?, of id: DownloadID, _ shown: inout Shown) {
        guard let trouble, !trouble.isHopeless, shown.reasons[id] != trouble.failure.message else { return }
        shown.reasons[id] = trouble.failure.message
        StandardError.line(.note, "\(shown.rows[id]?.name ?? "\(id)"): \(trouble.words)")
    }

    /// The bars go.
    func finish() {
        guard isTerminal else { return }
        shown.withLock { shown in
            shown.isOver = true
            guard shown.height > 0 else { return }
            StandardError.raw("\u{1B}[\(shown.height)A\r\u{1B}[J")
            shown.height = 0
        }
    }

    /// Whether standard error is a terminal that understands how a cursor is moved.
    private static var movesCursor: Bool {
        guard isatty(2) == 1, let kind = getenv("TERM") else { return false }
        return strcmp(kind, "dumb") != 0
    }

    private func draw(_ shown: inout Shown) {
        if shown.isOver { return }
        shown.lastDrawn = .now
        let size = ScreenSize.now
        let rows = order.compactMap { shown.rows[$0] }
        let lines = ProgressRow.lines(rows, columns: size.columns - 1, atMost: size.rows - 1)
        let up = shown.height > 0 ? "\u{1B}[\(shown.height)A" : ""
        StandardError.raw(up + "\r" + lines.map { $0 + "\u{1B}[K\n" }.joined() + "\u{1B}[J")
        shown.height = lines.count
    }
}

extension DownloadEvent {
    /// For `--json`.
    fileprivate func members(of id: DownloadID, _ trouble: DownloadTrouble?) -> JSON {
        let (event, details): (String, [(String, JSON)]) =
            switch self {
            case .progress(let received, let length):
                ("progress", [("received", .optional(received)), ("length", .optional(length))])
            case .state(let state, let activity):
                (
                    "state",
                    [("state", .string(state.word))]
                        + (state == .queued ? [("activity", .string(activity.word))] : [])
                        + (trouble.map { trouble in
                            [
                                ("failure", trouble.failure.json), ("nextTry", .optional(trouble.nextTry)),
                            ]
                        } ?? [])
                )
            case .finished(let file):
                (
                    "finished",
                    JSON.members(of: file.path) + [
                        ("length", .optional(file.length)), ("isTamperProof", .bool(file.isTamperProof)),
                    ]
                )
            case .failed(let failure):
                (
                    "failed",
                    [("kind", .string(failure.kind.rawValue)), ("message", .string(failure.message))]
                )
            case .cancelled: ("cancelled", [])
            }
        return .object([("id", .string("\(id)")), ("event", .string(event))] + details)
    }
}
