import Logging

/// What `download run` writes to its log: what became of each download, by its id. The log is a place where anybody may look, so
/// URLs, names and what servers said are for the level debug.
actor RunLog {
    private let log: Logger
    private var told: [DownloadID: (state: DownloadState, activity: DownloadActivity)]?

    init(_ log: Logger) { self.log = log }

    /// Says what has changed since the last list. Of what was over before the first one, nothing.
    func tell(_ list: [Download]) {
        let before = told
        for download in list {
            let last = before?[download.id]
            if before == nil, download.state.isOver { continue }
            if let last, last == (download.state, download.activity) { continue }
            say(download)
        }
        told = Dictionary(list.map { ($0.id, ($0.state, $0.activity)) }) { first, _ in first }
    }

    private func say(_ download: Download) {
        let id = "\(download.id)".prefix(8)
        let kind = download.failure.map { " (\($0.kind.rawValue))" } ?? ""
        switch download.state {
        case .finished: log.notice("download \(id): finished")
        case .failed: log.warning("download \(id): failed\(kind)")
        case .paused, .cancelled, .publishing: log.info("download \(id): \(download.state.word)")
        case .queued where download.activity == .waitingToRetry: log.info("download \(id): tried again later\(kind)")
        // What everything does first is worth no line of its own.
        case .queued where download.activity == .waiting:
            log.debug("download \(id): \(download.words(isRunning: true))")
        case .queued: log.info("download \(id): \(download.words(isRunning: true))")
        }
        guard let request = download.request else { return }
        let why = download.failure.map { ": \($0.words)" } ?? ""
        log.debug("download \(id): \(quoted(request.url.absoluteString)) to \(quoted(request.target))\(why)")
    }
}
