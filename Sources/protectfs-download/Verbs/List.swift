extension DownloadList {
    func perform() async throws {
        let queue = try keybag.downloads()
        let isRunning = queue.isRunning
        let downloads = try await queue.downloads()
        if json { return try JSON.array(downloads.map { $0.members(isRunning: isRunning) }).print() }
        var lines = OutputLines()
        for download in downloads {
            let id = "\(download.id)".prefix(8)
            let share = String(repeating: " ", count: max(0, 5 - download.share.count)) + download.share
            let words = download.words(isRunning: isRunning)
            // Quoted in a pipe, too: a server may have named the file, and the lines are for people. Programs have --json.
            let name = download.request.map { Array("  ".utf8) + listed($0.target, toTerminal: true) } ?? []
            try lines.add(Array("\(id)  \(share)  ".utf8) + Array(words.utf8) + name)
        }
        try lines.finish()
    }
}
