extension DownloadAdd {
    func perform() async throws {
        let (queue, outcome) = (try keybag.downloads(), Outcome())
        let requests = try wanted.requests(outcome)
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
