import FoundationEssentials

extension DownloadQueue {
    /// Runs the list, or follows who does, until these are over; shows how far they are, and says what has failed.
    func finish(_ downloads: [Download], _ outcome: Outcome, asJSON isJSON: Bool) async throws {
        Interruption.watch()
        let display = ProgressDisplay(downloads, asJSON: isJSON)
        let following = Following(self, display)
        let results = try await following.wait(for: downloads)
        display.finish()
        for (download, result) in zip(downloads, results) {
            guard case .failure(let error) = result else { continue }
            // Also where a signal came: what had failed before it has failed.
            if error is CancellationError { continue }
            outcome.record(Failure(error, of: download))
        }
        if Interruption.isRequested {
            let left = zip(downloads, results).filter { !$1.isOver }.map { "\($0.0.id)" }
            if !left.isEmpty {
                let noun = left.count == 1 ? "download" : "downloads"
                StandardError.line(
                    .note, "\(noun) \(left.joined(separator: ", ")) stay\(left.count == 1 ? "s" : "") in the list")
            }
            throw ExitStatus.interrupted
        }
        try outcome.leave()
    }
}

extension Failure {
    /// An error, with what helps for this download.
    fileprivate init(_ error: any Error, of download: Download) {
        let plain = Failure(error)
        let url = download.request.map { $0.url.absoluteString } ?? ""
        let hint: String? =
            switch (error as? DownloadError)?.failure?.kind {
            case .untrusted:
                Self.hint(forUntrusted: (error as? DownloadError)?.failure?.server, askedFor: download.request?.url)
            case .credentials:
                if let url = download.request?.url, let host = url.host() {
                    Self.hint(for: Origin.authority(host, url.port ?? 443), (error as? DownloadError)?.failure?.server)
                } else {
                    plain.hint
                }
            case .connection where (error as? DownloadError)?.failure?.unknownHost != nil:
                "check the name, and the network; the same command tries again; or forget it: "
                    + "protectfs download cancel \(download.id)"
            case .gaveUp, .disk, .targetExists:
                plain.hint ?? Self.hint(forKept: download)
            default: plain.hint
            }
        self.init(plain.status, url.isEmpty ? plain.message : "\(quoted(url)): \(plain.message)", hint: hint)
    }
}

extension Failure {
    /// A download keeps what has arrived, and an upload its entry.
    private static func hint(forKept download: Download) -> String {
        let isUpload = download.request?.upload != nil
        return (isUpload ? "it stays in the list" : "what arrived is kept")
            + "; to continue: protectfs download resume \(download.id); "
            + "to \(isUpload ? "forget" : "delete") it: protectfs download cancel \(download.id)"
    }

    private static func hint(forUntrusted server: String?, askedFor url: URL?) -> String {
        let asked = url.flatMap { url in url.host().map { Origin.authority($0, url.port ?? 443) } }
        let probe = "see what it presents: protectfs download probe "
        if let server, server.lowercased() != asked?.lowercased() {
            return "a redirect led to \(quoted(server)); " + probe + quoted(server)
        }
        return probe + quoted(url?.absoluteString ?? "")
    }

    /// What `--user` gives is for the server of the URL only, and not for one that it redirects to.
    private static func hint(for asked: String, _ server: String?) -> String {
        let keep = "protectfs download credentials add \(quoted(server ?? asked)) --user NAME"
        return server == nil || server == asked
            ? "give them: --user NAME; or keep them: \(keep)" : "a redirect led to \(quoted(server ?? "")): \(keep)"
    }
}

extension DownloadError {
    fileprivate var failure: DownloadFailure? {
        if case .failed(let failure) = self { failure } else { nil }
    }
}

extension Result {
    /// Whether it came to an end, good or bad, before we were told to stop.
    fileprivate var isOver: Bool {
        if case .failure(let error) = self { return !(error is CancellationError) }
        return true
    }
}
