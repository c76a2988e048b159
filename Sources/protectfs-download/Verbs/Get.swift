extension DownloadGet: PerformedVerb {
    func perform() async throws {
        options.warn()
        let queue = try keybag.downloads(connection.connections())
        let trust = try trust.trust()
        let given = try credentials.given()
        let outcome = Outcome()
        var downloads: [Download] = []
        for url in urls {
            do {
                downloads.append(try await queue.goOn(with: DownloadRequest(url, to: target, options, trust, given)))
            } catch {
                outcome.record(error)
            }
        }
        try await queue.finish(downloads, outcome, asJSON: json)
    }
}
