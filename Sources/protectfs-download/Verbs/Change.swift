extension DownloadPause {
    func perform() async throws {
        try await downloads.each(of: keybag.downloads()) { queue, download in try await queue.pause(download.id) }
    }
}

extension DownloadResume {
    func perform() async throws {
        try await downloads.each(of: keybag.downloads()) { queue, download in try await queue.resume(download.id) }
    }
}

extension DownloadCancel {
    func perform() async throws {
        try await downloads.each(of: keybag.downloads()) { queue, download in
            if download.state != .finished { try await queue.cancel(download.id) }
            // While another process is about to stop it, the row tells that process to.
            if !queue.isRunning || download.state.isOver { try await queue.remove(download.id) }
        }
    }
}

extension DownloadClear {
    func perform() async throws { try await keybag.downloads().removeEnded() }
}

extension DownloadsArgument {
    /// Does it to all of them; what fails is said, and the others go on.
    fileprivate func each(
        of queue: DownloadQueue, _ change: (DownloadQueue, Download) async throws -> Void
    ) async throws {
        let outcome = Outcome()
        for id in ids {
            do { try await change(queue, queue.named(id)) } catch { outcome.record(error) }
        }
        try outcome.leave()
    }
}
