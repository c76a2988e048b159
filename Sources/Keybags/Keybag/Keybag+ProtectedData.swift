import DurableFiles
import ProtectionFormat
import ProtectionKeys
import Synchronization

extension Keybag {
    /// Every lock and unlock of this keybag from now on, whichever process of the user does it.
    ///
    /// Any number of loops can run at once, each with a stream of its own; they end when their task is cancelled. A loop that does not keep up misses
    /// events older than the last four, never the last one. One thread per process waits for all loops, asleep, and costs nothing while nothing
    /// happens. Where the file system reports no changes (NFS, FUSE, a read-only medium), the thread looks once a second; the keybag's `warn` is told
    /// so.
    ///
    ///     for await event in keybag.protectedDataEvents {
    ///         if case .willBecomeUnavailable = event { try save() }
    ///     }
    ///
    /// The stream ends at once if no thread can be made, or file descriptors have run out.
    public var protectedDataEvents: AsyncStream<ProtectedDataEvent> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: ProtectedDataEvent.self, bufferingPolicy: .bufferingNewest(4))
        do throws(DataProtectionError) {
            let observation = try listen { events in for event in events { continuation.yield(event) } }
            continuation.onTermination = { _ in observation.cancel() }
        } catch {
            continuation.finish()
        }
        return stream
    }

    /// Returns as soon as files of every class open: at once if they do already.
    ///
    /// - Throws: `CancellationError` when the task is cancelled; ``KeybagFailure/keyringUnavailable(_:)``; `system` if nothing can be
    ///   waited for.
    public func waitUntilAvailable() async throws {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        // Listened to before it is looked at: no unlock falls in between.
        let observation = try listen { _ in continuation.yield() }
        defer { observation.cancel() }
        var looks = stream.makeAsyncIterator()
        while try state() != .unlocked {
            guard await looks.next() != nil else { throw CancellationError() }
        }
    }

    /// Calls `body` for every event from now on, one after the other, as ``protectedDataEvents`` has them. For code that has
    /// no task to wait in.
    ///
    /// It is called on a thread of Swift's own. While it is at work nobody else waits for it, and it can call whatever it wants.
    /// - Returns: keep it: the calls end when it goes.
    public func observeProtectedData(
        _ body: @escaping @Sendable (ProtectedDataEvent) async -> Void
    ) -> ProtectedDataObservation { ProtectedDataObservation(protectedDataEvents, body) }

    /// Tells of events on the one thread that listens; `tell` must not wait for anything.
    ///
    /// It is called also when there is nothing to tell: between two looks a lock and an unlock may have come and gone, and who
    /// waits for a state asks for it again then.
    package func listen(
        _ tell: @escaping @Sendable ([ProtectedDataEvent]) -> Void
    ) throws(DataProtectionError) -> LockListener.Observation {
        let view = Watcher(isAvailable: isProtectedDataAvailable)
        return try LockListener.shared.observe(directory, of: uuid, warn: warn) { [self] event in
            let (changes, next) = view.look(self, event)
            tell(changes.map(ProtectedDataEvent.init))
            return next
        }
    }

    /// What one listener knows.
    private final class Watcher: Sendable {
        private let view: Mutex<ProtectedDataView>

        init(isAvailable: Bool) { view = Mutex(ProtectedDataView(isAvailable: isAvailable)) }

        func look(_ keybag: Keybag, _ event: EventRecord?) -> (changes: [ProtectedDataView.Change], next: UInt64?) {
            // Where only the kernel's timeout locked it may keep the payload for minutes; and after the clock was set back it does not lock.
            keybag.ring.clearExpired(in: keybag.directory)
            let isAvailable = (try? keybag.state()).map { $0 == .unlocked }
            // An eviction that has left the keys here was in another user namespace. It says nothing of their end.
            let isOfOthers = event?.kind == .didBecomeUnavailable && isAvailable == true
            let last = (isOfOthers ? nil : event) ?? keybag.lastTransition
            return view.withLock {
                $0.look(isAvailable: isAvailable, event: last, now: Clock.bootTime(), bootID: Clock.bootID())
            }
        }
    }

    /// What the event would say, where there is none: nobody listened when it happened, or it could not be written.
    private var lastTransition: EventRecord {
        let record = transition.read()
        let kind: EventRecord.Kind = record.deadline == 0 ? .didBecomeAvailable : .willBecomeUnavailable
        return EventRecord(kind, of: uuid, record)
    }
}

extension EventRecord {
    package init(_ kind: Kind, of keybag: KeybagUUID, _ record: TransitionRecord) {
        let ends = kind == .didBecomeUnavailable ? [] : [record.deadline, record.limit].filter { $0 != 0 }
        self.init(
            kind: kind, keybag: keybag, counter: record.counter, deadline: ends.min() ?? 0, bootID: record.bootID)
    }
}

extension ProtectedDataEvent {
    fileprivate init(_ change: ProtectedDataView.Change) {
        switch change {
        case .willBecomeUnavailable(let deadline):
            let now = Clock.bootTime()
            let left = Duration.nanoseconds(Int64(clamping: deadline)) - .nanoseconds(Int64(clamping: now))
            self = .willBecomeUnavailable(deadline: .now + left)
        case .didBecomeUnavailable: self = .didBecomeUnavailable
        case .didBecomeAvailable: self = .didBecomeAvailable
        }
    }
}

extension Keybag {
    /// Tells everybody who listens what became of class keys A and B. A hint: that it cannot be given keeps nobody from
    /// locking or unlocking.
    ///
    /// - Parameter record: as it is under the flock of `transition`, after the transition.
    package func announce(_ kind: EventRecord.Kind, _ record: TransitionRecord) {
        try? EventFile(of: directory).write(EventRecord(kind, of: uuid, record))
    }
}
