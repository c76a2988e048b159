extension DownloadAdd: PerformedVerb {
    func perform() async throws {
        options.warn()
        let queue = try keybag.downloads()
        let trust = try trust.trust()
        let given = try credentials.given()
        let outcome = Outcome()
        var requests: [DownloadRequest] = []
        for url in urls {
            do { requests.append(try DownloadRequest(url, to: target, options, trust, given)) } catch {
                outcome.record(error)
            }
        }
        let added = outcome.values(of: try await queue.add(requests))
        if json {
            try JSON.array(added.map { $0.members(isRunning: queue.isRunning) }).print()
        } else {
            var lines = OutputLines()
            for download in added { try lines.add(Array("\(download.id)".utf8)) }
            try lines.finish()
        }
        try outcome.leave()
    }
}
