import DataProtection

/// Runs the list: begins what may run, follows locks, unlocks and what other processes ask for, and ends without leaving anything
/// half done.
///
/// It has no state of its own that matters: whatever it knows it reads from the list again when something has happened.
actor DownloadRunner {
    let store: DownloadStore
    let transport: any DownloadTransport
    let connections: DownloadConnections
    let terms: TryTerms
    private var schedule: HostSchedule { HostSchedule(total: connections.total, perHost: connections.perHost) }
    let progress: LiveProgress
    var keybag: Keybag { store.keybag }
    var bell: Bell { Bell(directory: store.directory) }

    /// What is under way, and what it is.
    var running: [DownloadID: (task: Task<Void, Never>, item: HostSchedule.Item?, isSuspending: Bool)] = [:]
    /// What has ended since the list was read last: what was read of it may be from before, and would begin it again too early.
    var ended: Set<DownloadID> = []
    /// Open partials: one that was closed while locked could not be opened again.
    var partials: [DownloadID: PartialBox] = [:]
    /// Files that are being sent, open for the same reason; and those of which one needs a key that is not there.
    var bodies: [DownloadID: ProtectedFileBody] = [:]
    var closedBodies: Set<DownloadID> = []
    /// More files than these are not kept open while they wait for their next try.
    static let openFiles = 32
    /// What the last look has found whose time had come, by server and in its order: when one ends the next one begins at once, without
    /// another look.
    private var waiting: [String: ArraySlice<Waiting>] = [:]
    var hasWaiting: Bool { !waiting.isEmpty }
    private struct Waiting {
        let item: HostSchedule.Item
        let record: DownloadRecord
    }
    /// Somebody will be told soon that the list has changed.
    private var isTelling = false
    /// The end of one is in the list and not flushed: the bell does not ring before it is.
    var isUnflushed = false
    /// A lock was announced: what stops while locked must not begin.
    private var isLocking = false
    let wakes = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    var failure: DownloadError?

    init(
        _ store: DownloadStore, _ transport: any DownloadTransport, _ connections: DownloadConnections,
        _ progress: LiveProgress, _ session: SessionCredentials
    ) {
        (self.store, self.transport, self.connections, self.progress) = (store, transport, connections, progress)
        terms = TryTerms(store: store, connections: connections, session: session)
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
        // Cancelled while this one ended.
        if failure == nil { try? await store.blocking { list throws(DownloadError) in try Self.clearCancelled(list) } }
        await flush()
        withExtendedLifetime((lock, bells)) {}
        bell.ring()
        if let failure { throw failure }
    }

    private func follow(untilIdle: Bool) async throws(DownloadError) {
        var next = wakes.stream.makeAsyncIterator()
        await withTaskCancellationHandler {
            var (isReset, isTidy) = (false, false)
            while !Task.isCancelled, failure == nil {
                var askAgainAt: Int64?
                do throws(DownloadError) {
                    if !isReset { try await store.blocking { all throws(DownloadError) in try all.resetActivities() } }
                    isReset = true
                    if !isTidy { isTidy = try await tidyUp() }
                    let began = ContinuousClock.now
                    let (again, isIdle) = try await step(isTidy: isTidy)
                    if untilIdle, isIdle, running.isEmpty { return }
                    askAgainAt = again
                    // A long list is looked at less often: a tenth of the time goes into it.
                    try? await Task.sleep(for: (ContinuousClock.now - began) * 9)
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

    static var now: Int64 { DownloadStore.now }

    private func stop() async {
        waiting = [:]
        for (task, _, _) in running.values { task.cancel() }
        while let (task, _, _) = running.values.first { await task.value }
        let partials = self.partials.values
        (self.partials, bodies) = ([:], [:])
        for partial in partials { try? await BlockingWork.run { try partial.file.close() } }
    }

    // MARK: locks

    private func follow(_ event: ProtectedDataEvent) {
        switch event {
        case .willBecomeUnavailable:
            (isLocking, waiting) = (true, [:])
            // What they have is flushed while its key is there.
            for (task, _, isSuspending) in running.values where isSuspending { task.cancel() }
        case .didBecomeUnavailable, .didBecomeAvailable: (isLocking, waiting) = (false, [:])
        }
        wakes.continuation.yield()
    }

    // MARK: one look at the list

    /// Begins what may run now.
    ///
    /// - Parameter isTidy: false: nobody could look yet for what is left, and what begins now could be taken for it later.
    /// - Returns: when to look again, and whether nothing will happen by itself.
    private func step(isTidy: Bool) async throws(DownloadError) -> (askAgainAt: Int64?, isIdle: Bool) {
        ended = []
        let states: Set<DownloadState> = [.queued, .publishing, .cancelled]
        let records = try await store.blocking { store throws(DownloadError) in try store.records(in: states) }
        let early = records.filter { $0.state == .queued && $0.isOfLaterClock(than: Self.now) }.map(\.id)
        if !early.isEmpty {
            try await store.blocking { store throws(DownloadError) in try store.clockWasSetBack(under: early) }
            wakes.continuation.yield()
        }
        let byID = Dictionary(records.map { ($0.id, $0) }) { first, _ in first }
        for (id, value) in running where byID[id].map(\.state).map({ $0 != .queued && $0 != .publishing }) ?? true {
            value.task.cancel()
        }
        for id in bodies.keys where running[id] == nil && byID[id]?.state != .queued { bodies[id] = nil }
        for id in partials.keys where running[id] == nil && byID[id]?.state != .queued { await close(id) }
        if records.contains(where: { $0.state == .cancelled }) {
            let busy = Set(running.keys)
            try await store.blocking { store throws(DownloadError) in try Self.clearCancelled(store, but: busy) }
        }
        // From here to `refill()` nothing is awaited: what ends or begins meanwhile would begin again as it was.
        let isUnlocked = keybag.isProtectedDataAvailable && !isLocking
        var found: [Waiting] = []
        var notes: [(activity: DownloadActivity, record: DownloadRecord)] = []
        for record in records where running[record.id] == nil && !ended.contains(record.id) {
            switch record.state {
            case .publishing: begin(record, nil)
            case .queued:
                guard isTidy, let request = record.request else {
                    notes.append((.waitingForFirstUnlock, record))
                    continue
                }
                let isStopped = !isUnlocked && (request.whileLocked == .suspend || closedBodies.contains(record.id))
                if isStopped || (record.isWhole && !isUnlocked && !canFinish(record.id)) {
                    notes.append((.waitingForUnlock, record))
                } else if record.isWhole {
                    begin(record, nil)
                } else {
                    found.append(Waiting(item: item(record, request), record: record))
                }
            default: break
            }
        }
        let now = Self.now
        waiting = Dictionary(grouping: found.filter { $0.item.notBefore <= now }, by: \.item.origin)
            .mapValues { $0.sorted { $0.item.isBefore($1.item) }[...] }
        let askAgainAt = found.lazy.map(\.item.notBefore).filter { $0 > now }.min()
        refill()
        for (activity, record) in notes { try await note(activity, record) }
        return (askAgainAt, running.isEmpty && ended.isEmpty && askAgainAt == nil)
    }

    /// Begins what was found waiting, as far as there is room for it.
    ///
    /// A download that was paused, cancelled or finished since the last look finds out when it begins.
    func refill() {
        guard failure == nil, !waiting.isEmpty else { return }
        // No server has more places than these, however many wait for it.
        let first = waiting.values.flatMap { $0.prefix(schedule.perHost) }
        let plan = schedule.plan(
            waiting: first.map { $0.item }, running: running.values.compactMap { $0.item }, now: Self.now)
        guard !plan.begin.isEmpty else { return }
        let begins = Set(plan.begin)
        for next in first where begins.contains(next.item.id) && running[next.item.id] == nil {
            begin(next.record, next.item)
        }
        for origin in Set(first.map { $0.item.origin }) {
            // They are in its order, and so are those that begin.
            waiting[origin] = waiting[origin]?.drop { begins.contains($0.item.id) }
            if waiting[origin]?.isEmpty ?? false { waiting[origin] = nil }
        }
    }

    /// One is over: others look at the list, and the runner does where it does not know what to begin next. While many end, not
    /// each time.
    func tellSoon() {
        if waiting.isEmpty || failure != nil {
            wakes.continuation.yield()
            if !isUnflushed { return bell.ring() }
        }
        guard !isTelling else { return }
        isTelling = true
        Task {
            try? await Task.sleep(for: Self.pause)
            isTelling = false
            await flush()
            bell.ring()
            wakes.continuation.yield()
        }
    }

    /// Makes ends last that were not flushed: what follows may take long, and a finished file that was moved away must not come again.
    private func flush() async {
        guard isUnflushed else { return }
        isUnflushed = false
        if (try? await store.blocking { store throws(DownloadError) in store.flush() }) != true { isUnflushed = true }
    }
    private static let pause = Duration.milliseconds(100)

    private func item(_ record: DownloadRecord, _ request: DownloadRequest) -> HostSchedule.Item {
        HostSchedule.Item(
            id: record.id, origin: request.origin, priority: record.priority, position: record.position,
            notBefore: record.notBefore)
    }

    private func canFinish(_ id: DownloadID) -> Bool { partials[id]?.file.isInOnePiece ?? false }

    private func note(_ activity: DownloadActivity, _ record: DownloadRecord) async throws(DownloadError) {
        guard record.activity != activity else { return }
        _ = try? await BlockingWork.run { [store] in try store.set(activity, of: record.id) }
        bell.ring()
    }

    private func begin(_ record: DownloadRecord, _ item: HostSchedule.Item?) {
        guard let request = record.request else { return }
        let task = Task { await work(record, request) }
        running[record.id] = (task, item, request.whileLocked == .suspend)
    }

    // MARK: what is left

    func close(_ id: DownloadID) async {
        guard let partial = partials.removeValue(forKey: id) else { return }
        try? await BlockingWork.run { try partial.file.close() }
    }

    /// Removes what is left of cancelled downloads.
    private static func clearCancelled(
        _ store: DownloadStore, but running: Set<DownloadID> = []
    ) throws(DownloadError) {
        for record in try store.records(in: [.cancelled]) where !running.contains(record.id) {
            guard let request = record.request, record.hasParts else { continue }
            // Where its directory cannot be read the next one who looks tries again; the other downloads do not wait for that.
            do throws(DownloadError) {
                try PartialName(target: request.target, id: record.id).removeRest()
            } catch .protection {
                continue
            }
            try store.forgetParts(of: record.id)
        }
    }

    /// Removes what a runner that was killed, or a power cut, has left: files that nothing tells of any more.
    ///
    /// - Returns: false before the first unlock: nobody knows where they would be.
    private func tidyUp() async throws(DownloadError) -> Bool {
        try await store.blocking { store throws(DownloadError) in
            guard try store.canOpen() else { return false }
            let names = try store.records(in: [.queued, .paused, .failed, .cancelled]).compactMap { record in
                record.hasParts || record.isDamaged
                    ? nil : record.request.map { PartialName(target: $0.target, id: record.id) }
            }
            PartialName.removeForgotten(names)
            return true
        }
    }
}
