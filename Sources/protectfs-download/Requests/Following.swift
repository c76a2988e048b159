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
        await withTaskGroup { group in
            for (index, download) in downloads.enumerated() {
                group.addTask { (index, await follow(download)) }
            }
            var results = [Result<DownloadedFile, any Error>](
                repeating: .failure(CancellationError()), count: downloads.count)
            for await (index, result) in group { results[index] = result }
            return results
        }
    }

    private func follow(_ download: Download) async -> Result<DownloadedFile, any Error> {
        do {
            for try await event in download.events {
                display.show(event, of: download.id)
                switch event {
                case .finished(let file): return .success(file)
                case .failed(let failure): return .failure(DownloadError.failed(failure))
                case .cancelled: return .failure(DownloadError.cancelled(download.id))
                case .progress, .state: break
                }
            }
            return .failure(CancellationError())
        } catch {
            return .failure(error)
        }
    }
}
