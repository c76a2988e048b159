extension DownloadAdd: PerformedVerb {
    func perform() async throws {
        options.warn()
        let queue = try keybag.downloads()
        let trust = try trust.trust()
        let given = try credentials.given()
        let outcome = Outcome()
        var added: [Download] = []
        for url in urls {
            do {
                added.append(try await queue.add(DownloadRequest(url, to: target, options, trust, given)))
            } catch {
                outcome.record(error)
            }
        }
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
