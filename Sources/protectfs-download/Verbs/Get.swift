extension DownloadGet: PerformedVerb {
    func perform() async throws {
        options.warn()
        let queue = try keybag.downloads(connection.connections())
        let trust = try trust.trust()
        let given = try credentials.given()
        let outcome = Outcome()
        var downloads: [Download] = []
        let list = try await queue.downloads()
        for url in urls {
            do {
                let request = try DownloadRequest(url, to: target, options, trust, given)
                downloads.append(try await queue.goOn(with: request, in: list + downloads))
            } catch {
                outcome.record(error)
            }
        }
        try await queue.finish(downloads, outcome, asJSON: json)
    }
}
