import DataProtection
import Synchronization

/// Tells those who follow downloads in this process what has become of theirs: one bell and one look at the list for all of them. If
/// each looked for itself, a thousand would look a million times.
final class ListChanges: Sendable {
    /// What the list says of a download; nil: it is not there any more.
    typealias Seen = Result<DownloadRecord?, DownloadError>

    /// Somebody who follows a download.
    struct Listening: Sendable {
        /// Yields when there is something to see, or what comes has gone on.
        let wakes: AsyncStream<Void>
        /// What was seen last.
        let seen: @Sendable () -> Seen?
        let end: @Sendable () -> Void
    }

    private struct Listener {
        let id: DownloadID
        let wake: AsyncStream<Void>.Continuation
        var glance: DownloadStore.Glance?
        var seen: Seen?
    }

    private struct State {
        var listeners: [Int: Listener] = [:]
        var count = 0
        var looking: (task: Task<Void, Never>, wake: AsyncStream<Void>.Continuation)?
    }
    private let state = Mutex(State())
    private let store: DownloadStore
    private let progress: LiveProgress

    /// How often what comes is looked at while this process runs the list. Another one rings when it has flushed.
    private static let tick = Duration.milliseconds(250)

    init(_ store: DownloadStore, _ progress: LiveProgress) { (self.store, self.progress) = (store, progress) }

    /// Follows a download from now on: first it is looked at as it is.
    func listen(to id: DownloadID) -> Listening {
        let (stream, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let number = state.withLock { state in
            state.count += 1
            state.listeners[state.count] = Listener(id: id, wake: wake)
            let looking = state.looking ?? begin()
            state.looking = looking
            looking.wake.yield()
            return state.count
        }
        return Listening(wakes: stream) { [self] in
            state.withLock { $0.listeners[number]?.seen }
        } end: { [self] in
            state.withLock { state in
                state.listeners[number] = nil
                guard state.listeners.isEmpty else { return }
                state.looking?.task.cancel()
                state.looking = nil
            }
        }
    }

    private func begin() -> (task: Task<Void, Never>, wake: AsyncStream<Void>.Continuation) {
        let (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        return (Task { await look(wakes, wake) }, wake)
    }

    private func look(_ wakes: AsyncStream<Void>, _ wake: AsyncStream<Void>.Continuation) async {
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
        for await _ in wakes {
            let began = ContinuousClock.now
            try? await BlockingWork.run { [self] in lookOnce() }
            // A long list is looked at less often: not more than a third of the time goes into it.
            try? await Task.sleep(for: (ContinuousClock.now - began) * 2)
        }
    }

    private func lookOnce() {
        let known = state.withLock { $0.listeners.mapValues { ($0.id, $0.glance, isNew: $0.seen == nil) } }
        let seen: [Int: (DownloadStore.Glance?, Seen)]
        do throws(DownloadError) {
            let glances = try store.glances()
            let changed = known.filter { $1.isNew || glances[$1.0] != $1.1 }
            let records = try store.records(of: Set(changed.values.map(\.0)))
            seen = changed.mapValues { (glances[$0.0], .success(records[$0.0])) }
        } catch {
            seen = known.mapValues { ($0.1, .failure(error)) }
        }
        state.withLock { state in
            for (number, (glance, record)) in seen {
                state.listeners[number]?.glance = glance
                state.listeners[number]?.seen = record
            }
            for (number, listener) in state.listeners where seen[number] != nil || progress(listener.id) != nil {
                listener.wake.yield()
            }
        }
    }
}
