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
        let asked = download.request.flatMap { request in
            request.url.host().map { Origin.authority($0, request.url.port ?? 443) }
        }
        let failure = (error as? DownloadError)?.failure
        let hint: String? =
            switch failure?.kind {
            case .untrusted:
                Self.hint(forUntrusted: failure?.server, asked, url)
                    + (download.request?.upload == nil
                        ? ""
                        : "; exceptions do not count for complete and unless-open files: add it again with --pin or --anchor")
            case .credentials: asked.map { Self.hint(for: $0, failure?.server) } ?? plain.hint
            case .connection where failure?.unknownHost != nil:
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

    private static func hint(forUntrusted server: String?, _ asked: String?, _ url: String) -> String {
        let probe = "see what it presents: protectfs download probe "
        guard let server, server.lowercased() != asked?.lowercased() else { return probe + quoted(url) }
        return "a redirect led to \(quoted(server)); " + probe + quoted(server)
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
