import DurableFiles

/// What becomes of the keys of protected data, as UIKit names it. See ``Keybag/protectedDataEvents``.
public enum ProtectedDataEvent: Hashable, Sendable {
    /// A lock is coming: the time until `deadline` is for saving. Told again if the deadline comes nearer.
    ///
    /// Where somebody locks without any grace the keys are gone already when this is told, and ``didBecomeUnavailable``
    /// follows at once.
    case willBecomeUnavailable(deadline: ContinuousClock.Instant)
    /// The keys of classes `complete` and `completeUnlessOpen` are not in the kernel keyring any more.
    case didBecomeUnavailable
    /// Files of every class open: after an unlock, or because a lock that was to come has been cancelled.
    case didBecomeAvailable
}

/// Calls what it was given until it is cancelled or goes. See ``Keybag/observeProtectedData(_:)``.
public final class ProtectedDataObservation: Sendable {
    private let task: Task<Void, Never>

    package init(
        _ events: AsyncStream<ProtectedDataEvent>, _ body: @escaping @Sendable (ProtectedDataEvent) async -> Void
    ) {
        task = Task.detached { for await event in events { await body(event) } }
    }

    deinit { cancel() }

    /// Ends it. A call that is under way is not waited for.
    public func cancel() { task.cancel() }
}
