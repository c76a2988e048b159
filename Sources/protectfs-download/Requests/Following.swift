/// Waits for downloads, and runs the list as long as nobody else does.
struct Following {
    private let queue: DownloadQueue
    private let display: ProgressDisplay

    init(_ queue: DownloadQueue, _ display: ProgressDisplay) { (self.queue, self.display) = (queue, display) }

    /// What came of each, in their order; `CancellationError` for those that were not over when a signal came.
    ///
    /// - Throws: what is wrong with the list.
    func wait(for downloads: [Download]) async throws -> [Result<DownloadedFile, any Error>] {
        if downloads.isEmpty { return [] }
        let following = Task { await follow(downloads) }
        let runner = Task {
            do { try await run() } catch {
                following.cancel()
                throw error
            }
        }
        Interruption.onRequest {
            following.cancel()
            runner.cancel()
        }
        let results = await following.value
        runner.cancel()
        try await runner.value
        return results
    }

    private func run() async throws {
        while !Task.isCancelled {
            do throws(DownloadError) { return try await queue.run() } catch {
                guard case .alreadyRunning = error else { throw error }
            }
            // It may end before our downloads do.
            try? await Task.sleep(for: .seconds(1))
        }
    }

    private func follow(_ downloads: [Download]) async -> [Result<DownloadedFile, any Error>] {
        var ends: [DownloadID: Result<DownloadedFile, any Error>] = [:]
        var failure: any Error = CancellationError()
        do {
            for try await (id, event) in queue.events(of: downloads.map(\.id)) {
                display.show(event, of: id)
                switch event {
                case .finished(let file): ends[id] = .success(file)
                case .failed(let failure): ends[id] = .failure(DownloadError.failed(failure))
                case .cancelled: ends[id] = .failure(DownloadError.cancelled(id))
                case .progress, .state: break
                }
            }
        } catch {
            failure = error
        }
        return downloads.map { ends[$0.id] ?? .failure(failure) }
    }
}
