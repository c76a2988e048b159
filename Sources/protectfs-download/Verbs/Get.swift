extension DownloadGet: PerformedVerb {
    func perform() async throws {
        options.warn()
        let queue = try keybag.downloads(connection.connections())
        let trust = try trust.trust()
        let outcome = Outcome()
        var downloads: [Download] = []
        let list = try await queue.downloads()
        for url in urls {
            do {
                let request = try DownloadRequest(url, to: target, options, trust)
                downloads.append(try await queue.goOn(with: request, in: list + downloads))
            } catch {
                outcome.record(error)
            }
        }
        Interruption.watch()
        let display = ProgressDisplay(downloads, asJSON: json)
        let following = Following(queue, display)
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
        let hint =
            plain.status == .untrusted ? "see what it presents: protectfs download probe \(quoted(url))" : plain.hint
        self.init(plain.status, url.isEmpty ? plain.message : "\(quoted(url)): \(plain.message)", hint: hint)
    }
}

extension Result {
    /// Whether it came to an end, good or bad, before we were told to stop.
    fileprivate var isOver: Bool {
        if case .failure(let error) = self { return !(error is CancellationError) }
        return true
    }
}
