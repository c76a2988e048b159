import DataProtection

extension DownloadQueue {
    /// What happens to a download, until it is over.
    nonisolated func events(of id: DownloadID) -> AsyncThrowingStream<DownloadEvent, any Error> {
        let (stream, continuation) = AsyncThrowingStream.makeStream(
            of: DownloadEvent.self, bufferingPolicy: .bufferingNewest(64))
        let task = Task {
            do {
                try await follow(id) { continuation.yield($0) }
                continuation.finish()
            } catch {
                continuation.finish(throwing: error)
            }
        }
        continuation.onTermination = { _ in task.cancel() }
        return stream
    }

    /// The whole list, now and after every change, whichever process makes it; until the task is cancelled.
    public nonisolated var lists: AsyncThrowingStream<[Download], any Error> {
        let (stream, continuation) = AsyncThrowingStream.makeStream(
            of: [Download].self, bufferingPolicy: .bufferingNewest(1))
        let task = Task {
            let (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
            let listener = BellListener(Bell(directory: store.directory)) { wake.yield() }
            var next = wakes.makeAsyncIterator()
            do {
                repeat {
                    let began = ContinuousClock.now
                    continuation.yield(try await downloads())
                    // As ListChanges: not more than a third of the time goes into looking.
                    try await Task.sleep(for: (ContinuousClock.now - began) * 2)
                } while await next.next() != nil
                continuation.finish()
            } catch {
                continuation.finish(throwing: error)
            }
            withExtendedLifetime(listener) {}
        }
        continuation.onTermination = { _ in task.cancel() }
        return stream
    }

    private nonisolated func follow(_ id: DownloadID, _ tell: @escaping @Sendable (DownloadEvent) -> Void) async throws
    {
        let changes = changes.listen(to: id)
        defer { changes.end() }
        var told: Set<DownloadEvent> = []
        for await _ in changes.wakes {
            guard let seen = changes.seen() else { continue }
            guard let record = try seen.get() else { return tell(.cancelled) }
            let download = Download(record, self, live: progress(id))
            let events = download.changes
            for event in events where !told.contains(event) { tell(event) }
            told = Set(events)
            if download.state.isOver { return }
        }
        throw CancellationError()
    }
}

extension Download {
    /// What is to be said of it as it is now.
    fileprivate var changes: [DownloadEvent] {
        var events: [DownloadEvent] = [.state(state, activity)]
        if received > 0 { events.append(.progress(received: received, of: length)) }
        switch state {
        case .finished: if let file { events.append(.finished(file)) }
        case .failed: events.append(.failed(failure ?? DownloadFailure(.lost, "nobody knows why")))
        case .cancelled: events.append(.cancelled)
        case .queued, .paused, .publishing: break
        }
        return events
    }
}
