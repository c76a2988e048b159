extension DownloadGet {
    func perform() async throws {
        let (queue, outcome) = (try keybag.downloads(connection.connections()), Outcome())
        let requests = try wanted.requests(outcome)
        let downloads = outcome.values(of: try await queue.goOn(with: requests))
        try await queue.finish(downloads, outcome, asJSON: json)
    }
}
