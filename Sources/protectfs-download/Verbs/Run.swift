extension DownloadRun: PerformedVerb {
    func perform() async throws {
        Interruption.watch()
        let queue = try keybag.downloads(connection.connections(proxy: proxy))
        let work = Task { try await queue.run(untilIdle: untilIdle) }
        Interruption.onRequest { work.cancel() }
        try await work.value
        guard untilIdle, !Interruption.isRequested else { return }
        let waiting = try await queue.downloads().filter { !$0.state.isOver && $0.state != .paused }.count
        if waiting > 0 {
            throw Failure(
                .notNow, "\(spoken(waiting, "download")) wait\(waiting == 1 ? "s" : "")",
                hint: "see what for: protectfs download list\(KeybagOption.words(for: keybag.location))")
        }
    }
}
