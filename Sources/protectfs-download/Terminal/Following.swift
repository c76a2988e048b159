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
        // A server that does not answer makes no event.
        let clock = Task { while (try? await Task.sleep(for: .seconds(1))) != nil { display.tick() } }
        let results = await following.value
        clock.cancel()
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
        let all = Set(downloads.map(\.id))
        do {
            for try await (id, event) in queue.events(of: Array(all)) {
                guard ends[id] == nil else { continue }
                let trouble = try await trouble(of: id, at: event)
                display.show(event, of: id, trouble)
                if let failure = trouble?.failure, trouble?.isHopeless == true {
                    try await queue.pause(id)
                    ends[id] = .failure(DownloadError.failed(failure))
                }
                switch event {
                case .finished(let file): ends[id] = .success(file)
                case .failed(let failure): ends[id] = .failure(DownloadError.failed(failure))
                case .cancelled: ends[id] = .failure(DownloadError.cancelled(id))
                case .progress, .state: break
                }
                if ends.count == all.count { break }
            }
        } catch {
            failure = error
        }
        return downloads.map { ends[$0.id] ?? .failure(failure) }
    }

    /// Why a download waits for its next try, if it does.
    private func trouble(of id: DownloadID, at event: DownloadEvent) async throws -> DownloadTrouble? {
        guard event == .state(.queued, .waitingToRetry) else { return nil }
        let download = try await queue.download(id)
        return download.failure.map { failure in
            // Somebody waits here: a name that was typed wrong gets no better. In the middle of a download the network has gone.
            DownloadTrouble(
                failure: failure, nextTry: download.nextTry,
                isHopeless: failure.unknownHost != nil && download.received == 0)
        }
    }
}

/// Why the last try of a download has failed, and when it is tried again.
struct DownloadTrouble {
    let failure: DownloadFailure
    /// Seconds since 1970.
    let nextTry: Int64?
    /// Whether waiting is not expected to help.
    let isHopeless: Bool

    /// On one line.
    var words: String {
        failure.words + (nextTry.map { "; next try at \(spoken(time: UInt64(clamping: $0)))" } ?? "")
    }
}
