/// When the keys must go. Feed it what happens; do what it returns, in that order. No clock and no I/O.
///
/// Times are durations since any one moment, by a clock that goes on while the machine sleeps.
///
///     var schedule = LockSchedule(limits: Limits(grace: 10))
///     schedule.handle(.sessionLocked, at: .seconds(100))    // [.arm(seconds: 10), .setTimer(.seconds(110))]
///     schedule.handle(.sessionUnlocked, at: .seconds(103))  // [.cancel, .setTimer(nil)]
public struct LockSchedule: Hashable, Sendable {
    private let limits: Limits
    /// A lock that is armed: when that was done, first and last, and when it is due.
    private var armed: Armed?
    /// When the user has been away for too long.
    private var away: Duration?
    /// When the keys have been there for too long.
    private var longest: Duration?
    /// A lock has failed.
    private var failure: Failure?
    /// How many have in a row.
    private var failures = 0
    private var isIdle = false
    /// Every lock lets the machine sleep until it has.
    private var isGoingToSleep = false

    private struct Armed: Hashable {
        var latest: Duration
        var due: Duration
    }

    private struct Failure: Hashable {
        let tried: Duration
        /// When it is tried again.
        let retry: Duration
    }

    public init(limits: Limits) { self.limits = limits }

    /// Takes what has happened, and says what to do.
    public mutating func handle(_ event: Event, at now: Duration) -> [Action] {
        switch event {
        case .sessionLocked, .screensaverBegan: return arm(at: now)
        case .sessionUnlocked: return cancel()
        case .willSleep:
            isGoingToSleep = true
            return lock()
        case .woke:
            isGoingToSleep = false
            return lookAtTheClock(now)
        case .sessionEnded: return lock()
        case .timer: return lookAtTheClock(now)
        case .idle:
            isIdle = true
            away = away ?? limits.idle.map { now + .seconds($0) }
            return [setTimer]
        case .active:
            (isIdle, away) = (false, nil)
            return [setTimer]
        case .unlockedByHand(let then):
            // Somebody typed the passcode: what was due at that time has ended. It may be heard of late.
            if let latest = armed?.latest, latest < then { armed = nil }
            if let tried = failure?.tried, tried < then { (failure, failures) = (nil, 0) }
            longest = limits.longest.map { then + .seconds($0) }
            // From another terminal perhaps: the desktop is as idle as before.
            if isIdle, let idle = limits.idle { away = max(away ?? .zero, then + .seconds(idle)) }
            return lookAtTheClock(now)
        case .lockedByHand:
            longest = nil
            return [setTimer]
        case .lockFailed:
            // The first ones at once: sleep is held up for seconds. A lock that cannot succeed must leave time for a passcode to be typed.
            failure = Failure(tried: now, retry: now + min(Self.pause * (1 << min(failures, 3)), Self.longestPause))
            failures += 1
            return [setTimer]
        }
    }

    /// Whether a lock has failed, and waits to be tried again.
    public var owesLock: Bool { failure != nil }

    /// How long to wait after the first failure. The pause doubles with each further one, up to ``longestPause``.
    static let pause = Duration.seconds(1)
    static let longestPause = Duration.seconds(8)

    private mutating func arm(at now: Duration) -> [Action] {
        guard limits.grace > 0 else { return lock() }
        let due = now + .seconds(limits.grace)
        // What is due earlier is not put off.
        armed = Armed(latest: now, due: min(armed?.due ?? due, due))
        return [.arm(seconds: limits.grace), setTimer]
    }

    /// Only what was armed: time limits go on.
    private mutating func cancel() -> [Action] {
        guard armed != nil else { return [] }
        armed = nil
        return [.cancel, setTimer]
    }

    private mutating func lock(isAgain: Bool = false) -> [Action] {
        (armed, away, longest, failure) = (nil, nil, nil, nil)
        if !isAgain { failures = 0 }
        guard isGoingToSleep else { return [.lockNow, setTimer] }
        return [.lockNow, .releaseInhibitor, setTimer]
    }

    private mutating func lookAtTheClock(_ now: Duration) -> [Action] {
        let due = [away, longest, failure?.retry].compactMap { $0 }.filter { $0 <= now }
        if !due.isEmpty { return lock(isAgain: due == [failure?.retry]) }
        guard let due = armed?.due, due <= now else { return [setTimer] }
        armed = nil
        return [.finish, setTimer]
    }

    private var setTimer: Action { .setTimer([armed?.due, away, longest, failure?.retry].compactMap { $0 }.min()) }
}

extension LockSchedule {
    /// How long keys may stay, in seconds.
    public struct Limits: Hashable, Sendable {
        /// After a screen lock or the beginning of a screensaver, so that programs can save.
        public var grace: UInt32
        /// After the desktop has called the user absent; nil: for ever.
        public var idle: UInt32?
        /// After an unlock, whatever happens; nil: for ever.
        public var longest: UInt32?

        /// - Parameter grace: 10 s in Apple Platform Security, "Complete Protection".
        public init(grace: UInt32 = 10, idle: UInt32? = nil, longest: UInt32? = nil) {
            (self.grace, self.idle, self.longest) = (grace, idle, longest)
        }
    }

    /// What happens.
    public enum Event: Hashable, Sendable {
        /// Somebody who can be believed says that a session was locked, or unlocked.
        case sessionLocked, sessionUnlocked
        /// A screensaver came up. That it goes is no event: it proves nothing.
        case screensaverBegan
        /// The machine waits for us before it sleeps; and it woke up.
        case willSleep, woke
        /// The last session has gone.
        case sessionEnded
        /// The desktop takes the user for absent; and for present.
        case idle, active
        /// The keys were loaded by passcode, at that time; or taken away by somebody else.
        case unlockedByHand(at: Duration)
        case lockedByHand
        /// The time that was set has come.
        case timer
        /// The keys could not be taken away.
        case lockFailed
    }

    /// What to do.
    public enum Action: Hashable, Sendable {
        /// Announce a lock, and let the kernel keep the time too.
        case arm(seconds: UInt32)
        /// Lock now, unless an unlock by hand ended what was armed.
        case finish
        /// Lock now, whatever was armed. If it fails, leave out the rest and say ``LockSchedule/Event/lockFailed``.
        case lockNow
        /// End what was armed: the keys stay.
        case cancel
        /// The keys have gone; the machine may sleep.
        case releaseInhibitor
        /// Say ``LockSchedule/Event/timer`` then, in place of what was set before; nil: never.
        case setTimer(Duration?)
    }
}
