import DataProtection

extension DownloadQueue {
    /// What happens to a download, until it is over.
    nonisolated func events(of id: DownloadID) -> AsyncThrowingStream<DownloadEvent, any Error> {
        stream(.bufferingNewest(64)) { [self] continuation in
            try await follow([id]) { continuation.yield($1) }
        }
    }

    /// What happens to each of several downloads, their states of now first; ends when all are over. For many that takes much less
    /// than to follow each.
    ///
    /// - Throws: while it is read: what is wrong with the list; `CancellationError`.
    public nonisolated func events(
        of ids: [DownloadID]
    ) -> AsyncThrowingStream<(id: DownloadID, event: DownloadEvent), any Error> {
        stream(.unbounded) { [self] continuation in
            try await follow(ids) { continuation.yield(($0, $1)) }
        }
    }

    private nonisolated func stream<Element: Sendable>(
        _ policy: AsyncThrowingStream<Element, any Error>.Continuation.BufferingPolicy,
        _ body: @escaping @Sendable (AsyncThrowingStream<Element, any Error>.Continuation) async throws -> Void
    ) -> AsyncThrowingStream<Element, any Error> {
        let (stream, continuation) = AsyncThrowingStream.makeStream(of: Element.self, bufferingPolicy: policy)
        let task = Task {
            do {
                try await body(continuation)
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
        stream(.bufferingNewest(1)) { [self] continuation in
            let (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
            let listener = BellListener(Bell(directory: store.directory)) { wake.yield() }
            defer { withExtendedLifetime(listener) {} }
            var next = wakes.makeAsyncIterator()
            repeat {
                let began = ContinuousClock.now
                continuation.yield(try await downloads())
                // As ListChanges: not more than a third of the time goes into looking.
                try await Task.sleep(for: (ContinuousClock.now - began) * 2)
            } while await next.next() != nil
        }
    }

    private nonisolated func follow(
        _ ids: [DownloadID], _ tell: @escaping @Sendable (DownloadID, DownloadEvent) -> Void
    ) async throws {
        let changes = changes.listen(to: ids)
        defer { changes.end() }
        var left: [DownloadID: (record: DownloadRecord?, told: [DownloadEvent])] = [:]
        for id in ids { left[id] = (nil, []) }
        if left.isEmpty { return }
        for await _ in changes.wakes {
            let changed = changes.takeChanged()
            for (id, seen) in changed where left[id] != nil {
                if let record = try seen.get() {
                    left[id]?.record = record
                } else {
                    tell(id, .cancelled)
                    left[id] = nil
                }
            }
            for id in Set(changed.keys).union(progress.ids) {
                guard case (let record?, let told)? = left[id] else { continue }
                let download = Download(record, self, live: progress(id))
                let events = try download.changes(in: store)
                for event in events where !told.contains(event) { tell(id, event) }
                left[id] = download.state.isOver ? nil : (record, events)
            }
            if left.isEmpty { return }
        }
        throw CancellationError()
    }
}

extension Download {
    /// What is to be said of it as it is now.
    ///
    /// - Throws: `beforeFirstUnlock` if it is finished and its name cannot be read; `storeDamaged` if there is none.
    fileprivate func changes(in store: DownloadStore) throws(DownloadError) -> [DownloadEvent] {
        var events: [DownloadEvent] = [.state(state, activity)]
        if received > 0 { events.append(.progress(received: received, of: length)) }
        switch state {
        case .finished:
            guard let file else {
                throw request == nil
                    ? .beforeFirstUnlock(store.keybag.directory)
                    : .storeDamaged(store.path, reason: "nothing says what was finished")
            }
            events.append(.finished(file))
        case .failed: events.append(.failed(failure ?? DownloadFailure(.lost, "nobody knows why")))
        case .cancelled: events.append(.cancelled)
        case .queued, .paused, .publishing: break
        }
        return events
    }
}
