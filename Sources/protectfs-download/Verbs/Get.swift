extension DownloadGet: PerformedVerb {
    func perform() async throws {
        options.warn()
        let queue = try keybag.downloads(connection.connections())
        let trust = try trust.trust()
        let given = try credentials.given()
        let outcome = Outcome()
        var requests: [DownloadRequest] = []
        for url in urls {
            do { requests.append(try DownloadRequest(url, to: target, options, trust, given)) } catch {
                outcome.record(error)
            }
        }
        let downloads = outcome.values(of: try await queue.goOn(with: requests))
        try await queue.finish(downloads, outcome, asJSON: json)
    }
}
