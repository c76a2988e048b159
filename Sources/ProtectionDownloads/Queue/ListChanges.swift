import DataProtection
import Synchronization

/// Tells those who follow downloads in this process what has become of theirs: one bell and one look at the list for all of them. If
/// each looked for itself, a thousand would look a million times.
final class ListChanges: Sendable {
    /// What the list says of a download; nil: it is not there any more.
    typealias Seen = Result<DownloadRecord?, DownloadError>

    /// An object that follows downloads.
    struct Listening: Sendable {
        /// Yields when there is something to see, or what comes has gone on.
        let wakes: AsyncStream<Void>
        /// Those that have changed since it was asked last; at first all.
        let takeChanged: @Sendable () -> [DownloadID: Seen]
        let end: @Sendable () -> Void
    }

    private struct Listener {
        let ids: Set<DownloadID>
        let wake: AsyncStream<Void>.Continuation
        /// Of those that were seen already, as they were then.
        var glances: [DownloadID: DownloadStore.Glance?] = [:]
        var changed: [DownloadID: Seen] = [:]
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

    /// Follows downloads from now on: first they are looked at as they are.
    func listen(to ids: [DownloadID]) -> Listening {
        let (stream, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let number = state.withLock { state in
            state.count += 1
            state.listeners[state.count] = Listener(ids: Set(ids), wake: wake)
            let looking = state.looking ?? begin()
            state.looking = looking
            looking.wake.yield()
            return state.count
        }
        return Listening(wakes: stream) { [self] in
            state.withLock { state in
                defer { state.listeners[number]?.changed = [:] }
                return state.listeners[number]?.changed ?? [:]
            }
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
        let known = state.withLock { $0.listeners.mapValues { (ids: $0.ids, glances: $0.glances) } }
        let seen: [Int: [DownloadID: (glance: DownloadStore.Glance?, Seen)]]
        do throws(DownloadError) {
            let glances = try store.glances()
            let changed = known.mapValues { known in
                known.ids.filter { known.glances[$0].map { [glance = glances[$0]] in $0 != glance } ?? true }
            }
            let records = try store.records(of: changed.values.reduce([]) { $0.union($1) })
            seen = changed.mapValues { ids in
                Dictionary(uniqueKeysWithValues: ids.map { ($0, (glances[$0], .success(records[$0]))) })
            }
        } catch {
            seen = known.mapValues { known in
                Dictionary(uniqueKeysWithValues: known.ids.map { ($0, (nil, .failure(error))) })
            }
        }
        state.withLock { state in
            for (number, seen) in seen {
                for (id, (glance, record)) in seen {
                    state.listeners[number]?.glances[id] = .some(glance)
                    state.listeners[number]?.changed[id] = record
                }
            }
            for listener in state.listeners.values {
                if !listener.changed.isEmpty || progress.has(any: listener.ids) { listener.wake.yield() }
            }
        }
    }
}
