import DataProtection

/// Runs the list: begins what may run, follows locks, unlocks and what other processes ask for, and ends without leaving anything
/// half done.
///
/// It has no state of its own that matters: whatever it knows it reads from the list again when something has happened.
actor DownloadRunner {
    private let store: DownloadStore
    private let transport: any DownloadTransport
    private let connections: DownloadConnections
    private var schedule: HostSchedule { HostSchedule(total: connections.total, perHost: connections.perHost) }
    private let progress: LiveProgress
    private var keybag: Keybag { store.keybag }
    private var bell: Bell { Bell(directory: store.directory) }

    /// What is under way, and what it is.
    private var running: [DownloadID: (task: Task<Void, Never>, item: HostSchedule.Item?, isSuspending: Bool)] = [:]
    /// Open partials: one that was closed while locked could not be opened again.
    private var partials: [DownloadID: PartialBox] = [:]
    /// A lock was announced: what stops while locked must not begin.
    private var isLocking = false
    private let wakes = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    private var failure: DownloadError?

    init(_ store: DownloadStore, _ transport: any DownloadTransport, _ connections: DownloadConnections, _ progress: LiveProgress)
    {
        (self.store, self.transport, self.connections, self.progress) = (store, transport, connections, progress)
    }

    /// Runs until the task is cancelled.
    ///
    /// - Parameter untilIdle: also ends when nothing waits any more but for an unlock, or nothing at all.
    /// - Throws: `alreadyRunning`, and what is wrong with the list.
    func run(untilIdle: Bool) async throws(DownloadError) {
        let lock = try RunnerLock(in: store.directory)
        let wake = wakes.continuation
        let bells = BellListener(bell) { wake.yield() }
        let events = keybag.protectedDataEvents
        let follower = Task { for await event in events { follow(event) } }
        do throws(DownloadError) {
            try await follow(untilIdle: untilIdle)
        } catch {
            failure = error
        }
        follower.cancel()
        await stop()
        withExtendedLifetime((lock, bells)) {}
        bell.ring()
        if let failure { throw failure }
    }

    private func follow(untilIdle: Bool) async throws(DownloadError) {
        var next = wakes.stream.makeAsyncIterator()
        await withTaskCancellationHandler {
            var hasBegun = false
            while !Task.isCancelled, failure == nil {
                var askAgainAt: Int64?
                do throws(DownloadError) {
                    if !hasBegun { try await tidyUp() }
                    hasBegun = true
                    let (again, isIdle) = try await step()
                    if untilIdle, isIdle, running.isEmpty { return }
                    askAgainAt = again
                } catch {
                    failure = error
                    return
                }
                let timer = askAgainAt.map { alarm(at: $0) }
                _ = await next.next(isolation: self)
                timer?.cancel()
            }
        } onCancel: { [wakes] in
            wakes.continuation.yield()
        }
    }

    private func alarm(at time: Int64) -> Task<Void, Never> {
        let wake = wakes.continuation
        return Task {
            try? await Task.sleep(for: .milliseconds(max(time - Self.now, 1)))
            wake.yield()
        }
    }

    private static var now: Int64 { Int64(clamping: Clock.wallTime() / 1_000_000) }

    private func stop() async {
        for (task, _, _) in running.values { task.cancel() }
        while let (task, _, _) = running.values.first { await task.value }
        let partials = self.partials.values
        self.partials = [:]
        for partial in partials { try? await BlockingWork.run { try partial.file.close() } }
    }

    // MARK: locks

    private func follow(_ event: ProtectedDataEvent) {
        switch event {
        case .willBecomeUnavailable:
            isLocking = true
            // What they have is flushed while its key is there.
            for (task, _, isSuspending) in running.values where isSuspending { task.cancel() }
        case .didBecomeUnavailable, .didBecomeAvailable: isLocking = false
        }
        wakes.continuation.yield()
    }

    // MARK: one look at the list

    /// Begins what may run now.
    ///
    /// - Returns: when to look again, and whether nothing will happen by itself.
    private func step() async throws(DownloadError) -> (askAgainAt: Int64?, isIdle: Bool) {
        let records = try await blocking { [store] () throws(DownloadError) in try store.records() }
        let byID = Dictionary(uniqueKeysWithValues: records.map { ($0.id, $0) })
        for (id, value) in running where byID[id].map(\.state).map({ $0 != .queued && $0 != .publishing }) ?? true {
            value.task.cancel()
        }
        for id in partials.keys where running[id] == nil && byID[id]?.state != .queued { await close(id) }
        for record in records where record.state == .cancelled && running[record.id] == nil {
            try await clear(record)
        }
        let isUnlocked = keybag.isProtectedDataAvailable && !isLocking
        var waiting: [HostSchedule.Item] = []
        for record in records where running[record.id] == nil {
            switch record.state {
            case .publishing: begin(record, nil)
            case .queued:
                guard let request = record.request else {
                    try await note(.waitingForFirstUnlock, record)
                    continue
                }
                let isStopped = request.whileLocked == .suspend && !isUnlocked
                if isStopped || (record.isWhole && !isUnlocked && !canFinish(record.id)) {
                    try await note(.waitingForUnlock, record)
                } else if record.isWhole {
                    begin(record, nil)
                } else {
                    waiting.append(item(record, request))
                }
            default: break
            }
        }
        let plan = schedule.plan(waiting: waiting, running: running.values.compactMap(\.item), now: Self.now)
        for id in plan.begin { begin(byID[id]!, waiting.first { $0.id == id }) }
        return (plan.askAgainAt, running.isEmpty && plan.askAgainAt == nil)
    }

    private func item(_ record: DownloadRecord, _ request: DownloadRequest) -> HostSchedule.Item {
        HostSchedule.Item(
            id: record.id, origin: request.origin, priority: record.priority, position: record.position,
            notBefore: record.notBefore)
    }

    private func canFinish(_ id: DownloadID) -> Bool { partials[id]?.file.isInOnePiece ?? false }

    private func note(_ activity: DownloadActivity, _ record: DownloadRecord) async throws(DownloadError) {
        guard record.activity != activity else { return }
        _ = await Result { [store] in try store.set(activity, of: record.id) }
        bell.ring()
    }

    private func begin(_ record: DownloadRecord, _ item: HostSchedule.Item?) {
        guard let request = record.request else { return }
        let task = Task { await work(record, request) }
        running[record.id] = (task, item, request.whileLocked == .suspend)
    }

    // MARK: one download

    private func work(_ record: DownloadRecord, _ request: DownloadRequest) async {
        do {
            if record.state == .publishing {
                try await publish(record.id)
            } else {
                let partial = try await partial(record, request)
                let end = record.isWhole ? EndOfTry.whole : await attempt(record, request, partial)
                try await settle(end, record, request, partial)
            }
        } catch is Superseded {
        } catch DownloadError.unknownDownload {
        } catch DownloadError.beforeFirstUnlock {
        } catch let error as DownloadError {
            failure = error  // the list cannot be written: nothing would be remembered
        } catch {
            failure = .store(store.path, code: 1, reason: "\(error)")
        }
        running[record.id] = nil
        progress.remove(record.id)
        bell.ring()
        wakes.continuation.yield()
    }

    private func partial(_ record: DownloadRecord, _ request: DownloadRequest) async throws -> PartialBox {
        if let partial = partials[record.id] { return partial }
        let partial = try await BlockingWork.run { [store] in
            PartialBox(
                PartialFile(record.id, request, store, keys: try store.integrityKeys(for: request.checks)))
        }
        partials[record.id] = partial
        return partial
    }

    private func attempt(
        _ record: DownloadRecord, _ request: DownloadRequest, _ partial: PartialBox
    ) async -> EndOfTry {
        await DownloadTry(
            record: record, request: request, partial: partial, store: store, transport: transport,
            connections: connections, progress: progress
        ).run()
    }

    /// What follows from the way in which a try has ended.
    private func settle(
        _ end: EndOfTry, _ record: DownloadRecord, _ request: DownloadRequest, _ partial: PartialBox
    ) async throws {
        let (store, id) = (store, record.id)
        switch end {
        case .whole: try await finish(id, partial)
        case .stopped, .askForAll: if request.whileLocked == .suspend { await close(id) }
        case .locked:
            await close(id)
            try await BlockingWork.run { try store.set(.waitingForUnlock, of: id) }
        case .failedForGood(let failure):
            await close(id)
            try await BlockingWork.run { try store.fail(id, with: failure) }
        case .failed(let reason, let failure):
            let now = Self.now
            let jitter = Double.random(in: 0...1)
            try await BlockingWork.run {
                let record = try store.record(id)
                let decision = request.retry.decide(
                    reason, failures: record.failures + 1, began: record.began, now: now, jitter: jitter)
                switch decision {
                case .retry(let time): try store.retry(id, at: time, after: failure)
                case .fail: try store.fail(id, with: failure)
                case .giveUp:
                    let words = "given up after \(record.attempts) tries: \(failure.message)"
                    try store.fail(id, with: DownloadFailure(.gaveUp, words, status: failure.status))
                }
            }
        }
    }

    /// Every byte is there: checks them, and gives the file its name.
    private func finish(_ id: DownloadID, _ partial: PartialBox) async throws {
        let store = store
        do {
            let failure = try await BlockingWork.run {
                try store.set(.checking, of: id)
                try partial.file.prepare()
                return try partial.file.check()
            }
            if let failure {
                // Not even under another name: what is not what it should be helps nobody but whoever has sent it.
                partials[id] = nil
                try await BlockingWork.run {
                    try store.failAndForget(id, with: failure)
                    try partial.file.remove()
                }
                return
            }
            partials[id] = nil
            try await BlockingWork.run { try store.beginPublishing(id, try partial.file.finish()) }
        } catch is PartialFile.Locked {
            // The parts of before an unlock wait for it.
            return try await BlockingWork.run { try store.set(.waitingForUnlock, of: id) }
        } catch is CancellationError {
            return
        } catch {
            guard case .failedForGood(let failure) = EndOfTry(error) else { throw error }
            await close(id)
            return try await BlockingWork.run { try store.fail(id, with: failure) }
        }
        try await publish(id)
    }

    private func publish(_ id: DownloadID) async throws {
        let (store, keybag) = (store, keybag)
        try await BlockingWork.run {
            let record = try store.record(id)
            guard let request = record.request, let file = record.result else { throw Superseded() }
            let failure = try Publication(request: request, file: file, keybag: keybag).perform()
            try store.endPublishing(id, failure: failure)
        }
    }

    // MARK: what is left

    private func close(_ id: DownloadID) async {
        guard let partial = partials.removeValue(forKey: id) else { return }
        try? await BlockingWork.run { try partial.file.close() }
    }

    /// Removes what is left of a cancelled download.
    private func clear(_ record: DownloadRecord) async throws(DownloadError) {
        guard let request = record.request else { return }
        try await blocking { [store] () throws(DownloadError) in
            guard try !store.segments(of: record.id).isEmpty else { return }
            try PartialFile.remove(PartialName(target: request.target, id: record.id))
            try store.forgetSegments(of: record.id)
        }
    }

    /// What a runner that was killed has left: words about what it did, and files that nothing tells of any more.
    private func tidyUp() async throws(DownloadError) {
        try await blocking { [store] () throws(DownloadError) in
            try store.resetActivities()
            for record in try store.records() where record.state == .failed || record.state == .cancelled {
                guard let request = record.request, try store.segments(of: record.id).isEmpty else { continue }
                try? PartialFile.remove(PartialName(target: request.target, id: record.id))
            }
        }
    }

    private func blocking<R: Sendable>(
        _ body: @escaping @Sendable () throws(DownloadError) -> R
    ) async throws(DownloadError) -> R {
        do { return try await BlockingWork.run { try body() } } catch let error as DownloadError { throw error } catch {
            throw .store(store.path, code: 1, reason: "\(error)")
        }
    }
}

extension Result where Failure == any Error {
    fileprivate init(_ body: @escaping @Sendable () throws -> Success) async where Success: Sendable {
        do { self = .success(try await BlockingWork.run(body)) } catch { self = .failure(error) }
    }
}
