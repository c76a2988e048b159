import DataProtection
import Synchronization

/// Tells those who follow downloads in this process when theirs has changed: one bell and one look at the list for all of them.
/// If each looked for itself, a thousand would look a million times.
final class ListChanges: Sendable {
    /// Somebody who follows a download.
    struct Listening: Sendable {
        let stream: AsyncStream<Void>
        let end: @Sendable () -> Void
    }

    private struct State {
        var listeners: [Int: (id: DownloadID, wake: AsyncStream<Void>.Continuation)] = [:]
        var count = 0
        var looking: Task<Void, Never>?
    }
    private let state = Mutex(State())
    private let store: DownloadStore
    private let progress: LiveProgress

    /// How often what comes is looked at while this process runs the list. Another one rings when it has flushed.
    private static let tick = Duration.milliseconds(250)

    init(_ store: DownloadStore, _ progress: LiveProgress) { (self.store, self.progress) = (store, progress) }

    /// Yields whenever the download may have changed, from now on.
    func listen(to id: DownloadID) -> Listening {
        let (stream, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let number = state.withLock { state in
            state.count += 1
            state.listeners[state.count] = (id, wake)
            if state.looking == nil { state.looking = Task { await look() } }
            return state.count
        }
        return Listening(stream: stream) { [self] in
            state.withLock { state in
                state.listeners[number] = nil
                guard state.listeners.isEmpty else { return }
                state.looking?.cancel()
                state.looking = nil
            }
        }
    }

    private func look() async {
        let (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let listener = BellListener(Bell(directory: store.directory)) { wake.yield() }
        let ticker = Task { [progress] in
            while !Task.isCancelled {
                try await Task.sleep(for: Self.tick)
                if !progress.isEmpty { wake.yield() }
            }
        }
        defer {
            ticker.cancel()
            withExtendedLifetime(listener) {}
        }
        var known: [DownloadID: DownloadStore.Glance] = [:]
        for await _ in wakes {
            let began = ContinuousClock.now
            // Where it cannot be read, each of them finds out why.
            let seen = try? await BlockingWork.run { [store] in try store.glances() }
            for (id, wake) in state.withLock({ $0.listeners.map { $0.value } }) {
                let isChanged = seen.map { $0[id] != known[id] || $0[id] == nil } ?? true
                if isChanged || progress(id) != nil { wake.yield() }
            }
            known = seen ?? [:]
            // A long list is looked at less often: not more than a third of the time goes into it.
            try? await Task.sleep(for: (ContinuousClock.now - began) * 2)
        }
    }
}
