/// What somebody knows about protected data, and what to tell them next. Without a clock, files or the ring.
///
/// What the ring says is so. Of the event only the deadline counts, and of that too little: whoever armed a lock may have
/// died, and an event may be missing. So the ring is asked again at the deadline, whatever has been heard.
package struct ProtectedDataView: Sendable {
    /// What is to be told.
    package enum Change: Hashable, Sendable {
        /// CLOCK_BOOTTIME in nanoseconds.
        case willBecomeUnavailable(deadline: UInt64)
        case didBecomeUnavailable
        case didBecomeAvailable
    }

    private enum Known: Equatable {
        case available
        case ending(deadline: UInt64)
        case unavailable
    }
    private var known: Known

    /// How long the ring is asked again after a deadline. The kernel's own timeout comes within a second after it.
    private static let patience: UInt64 = 5_000_000_000
    private static let pause: UInt64 = 200_000_000

    /// - Parameter isAvailable: what is known already.
    package init(isAvailable: Bool) { known = isAvailable ? .available : .unavailable }

    /// - Parameters:
    ///   - isAvailable: what the ring says; nil: it could not be asked.
    ///   - event: the last one, if it is known.
    ///   - now: CLOCK_BOOTTIME in nanoseconds.
    ///   - bootID: of this boot, 16 bytes.
    /// - Returns: what to tell, in order, and when to look again at the latest, nil: only when woken.
    package mutating func look(
        isAvailable: Bool?, event: EventRecord?, now: UInt64, bootID: [UInt8]
    ) -> (changes: [Change], next: UInt64?) {
        guard let isAvailable else { return ([], now + 1_000_000_000) }
        guard isAvailable else { return (becomeUnavailable(now), nil) }
        guard let event, event.bootID == bootID, event.deadline != 0 else { return (becomeAvailable(), nil) }
        switch event.kind {
        case .willBecomeUnavailable where !Self.isOver(event.deadline, now):
            return (end(at: event.deadline), Self.later(event.deadline, now))
        case .didBecomeAvailable:
            // The end of a limited unlock, which nobody announces: the kernel does it.
            let next = Self.isOver(event.deadline, now) ? nil : Self.later(event.deadline, now)
            return (becomeAvailable(), next)
        case .willBecomeUnavailable, .didBecomeUnavailable:
            return (becomeAvailable(), nil)
        }
    }

    private static func later(_ deadline: UInt64, _ now: UInt64) -> UInt64 { max(deadline, now + pause) }

    private static func isOver(_ deadline: UInt64, _ now: UInt64) -> Bool {
        now > deadline && now - deadline > patience
    }

    private mutating func becomeUnavailable(_ now: UInt64) -> [Change] {
        defer { known = .unavailable }
        switch known {
        case .unavailable: return []
        case .ending: return [.didBecomeUnavailable]
        // A lock without a grace. Programs for iOS know the first of these only.
        case .available: return [.willBecomeUnavailable(deadline: now), .didBecomeUnavailable]
        }
    }

    private mutating func becomeAvailable() -> [Change] {
        defer { known = .available }
        return known == .available ? [] : [.didBecomeAvailable]
    }

    private mutating func end(at deadline: UInt64) -> [Change] {
        defer { known = .ending(deadline: deadline) }
        switch known {
        case .ending(deadline): return []
        case .ending, .available: return [.willBecomeUnavailable(deadline: deadline)]
        case .unavailable: return [.didBecomeAvailable, .willBecomeUnavailable(deadline: deadline)]
        }
    }
}
