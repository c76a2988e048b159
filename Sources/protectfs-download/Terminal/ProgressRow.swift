/// One download on the screen. Text only: who draws it is ``ProgressDisplay``.
struct ProgressRow {
    let name: String
    private(set) var received: UInt64
    private(set) var length: UInt64?
    private(set) var state: DownloadState
    private(set) var activity: DownloadActivity
    /// Why it waits for its next try.
    private var trouble: DownloadTrouble?
    /// Of this try.
    private var rate = ProgressRate(of: .bytes)

    init(_ download: Download) {
        let name = download.request?.target.lastComponent?.string ?? "\(download.id)"
        self.init(name: hasUnprintable(Array(name.utf8)) ? quoted(name) : name, download.length)
        (received, state, activity) = (download.received, download.state, download.activity)
    }

    init(name: String, _ length: UInt64?) {
        (self.name, self.length, received) = (name, length, 0)
        (state, activity) = (.queued, .waiting)
    }

    mutating func take(
        _ event: DownloadEvent, _ trouble: DownloadTrouble? = nil, at now: ContinuousClock.Instant = .now
    ) {
        switch event {
        case .progress(let received, let length):
            (self.received, self.length) = (received, length ?? self.length)
            rate.note(received, at: now)
        case .state(let state, let activity):
            (self.state, self.activity, self.trouble) = (state, activity, trouble)
            if activity != .transferring { rate.reset() }
        case .finished: state = .finished
        case .failed: state = .failed
        case .cancelled: state = .cancelled
        }
    }

    /// A line for each, and one for all that have no room: those that are over, and that wait, go there first.
    static func lines(_ rows: [ProgressRow], columns: Int, atMost limit: Int) -> [String] {
        guard rows.count > limit else { return rows.map { $0.line(columns) } }
        let moving = rows.filter { $0.isMoving }.prefix(max(0, limit - 1))
        let finished = rows.filter { $0.state == .finished }.count
        let failed = rows.filter { $0.state == .failed || $0.state == .cancelled }.count
        var rest = "\(finished) of \(rows.count) finished"
        if failed > 0 { rest += ", \(failed) failed" }
        return moving.map { $0.line(columns) } + [String(rest.prefix(max(0, columns)))]
    }

    private var isMoving: Bool { state == .queued && activity == .transferring || state == .publishing }

    /// `alps.map  [########      ]  45 %  4.5 MiB of 10.0 MiB  1.1 MiB/s  5 s left`, or a word where nothing moves; never longer
    /// than `columns`.
    func line(_ columns: Int, at now: ContinuousClock.Instant = .now) -> String {
        let room = max(8, columns / 3)
        let shown = name.fitted(to: room, mark: "…")
        let head = shown + String(repeating: " ", count: room - shown.columns + 2)
        return (head + tail(columns - head.columns, now)).fitted(to: max(0, columns))
    }

    private func tail(_ columns: Int, _ now: ContinuousClock.Instant) -> String {
        if let word { return word }
        guard let length, length > 0 else {
            return "\(received >> 20) MiB\(rate.words(received, of: nil, at: now))"
        }
        let amount = "  \(spoken(bytes: received)) of \(spoken(bytes: length))"
        return Progress.bar(
            Double(received) / Double(length), details: amount + rate.words(received, of: length, at: now),
            columns: columns)
    }

    /// What it does, if that is not to receive.
    private var word: String? {
        switch state {
        case .paused, .finished, .failed, .cancelled: state.word
        case .publishing: "getting its name"
        case .queued:
            switch activity {
            case .transferring: received == 0 && length == nil ? "waiting for the server" : nil
            case .waiting: received > 0 ? nil : "waiting"
            case .waitingToRetry: trouble?.words ?? "waiting to try again"
            case .waitingForFirstUnlock: "waiting for the first unlock"
            case .waitingForUnlock: "waiting for an unlock"
            case .checking: "being checked"
            }
        }
    }
}
