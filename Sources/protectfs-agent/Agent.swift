import Glibc
import LockSchedule
import Logging
import SessionLock

/// Hands what happens to the schedule, and does what that says. Everything in one order, in one task.
struct Agent {
    /// What comes in.
    private enum Input: Sendable {
        case session(SessionEvent)
        case timer
        /// Time to look whether somebody has unlocked or locked by hand.
        case look
        case end
    }

    private var keybags: FollowedKeybags
    private var schedule: LockSchedule
    private let looks: Bool
    private let log: Logger
    /// Held until the keys have gone.
    private var inhibitor: SleepInhibitor?
    private var timer: Task<Void, Never>?
    private var unlockedSince: UInt64?

    private let inputs: AsyncStream<Input>
    private let input: AsyncStream<Input>.Continuation

    /// How often it is looked for keybags that nobody here has heard of yet; only where the age of keys has a limit.
    private static let lookInterval = Duration.seconds(60)

    init(_ keybags: FollowedKeybags, limits: LockSchedule.Limits, log: Logger) {
        (self.keybags, self.log) = (keybags, log)
        schedule = LockSchedule(limits: limits)
        looks = limits.longest != nil
        (inputs, input) = AsyncStream<Input>.makeStream()
    }

    /// Follows until `endings` says so. What is armed then is locked at once: nobody else would before the kernel does.
    ///
    /// Nothing else is locked, so that a new version of the agent does not lock a user who is working.
    mutating func run(_ events: SessionEvents, until endings: AsyncStream<Void>) async {
        let sources = [
            Task { [input] in for await event in events { input.yield(.session(event)) } },
            Task { [input] in for await _ in endings { input.yield(.end) } },
            Task { [input, looksAround = looks && keybags.followsAll] in
                while looksAround, !Task.isCancelled {
                    try? await Task.sleep(for: Self.lookInterval)
                    input.yield(.look)
                }
            },
        ]
        defer { for source in sources { source.cancel() } }
        if looks { keybags.listen { [input] in input.yield(.look) } }
        for await event in inputs {
            if case .end = event { break }
            take(event)
        }
        timer?.cancel()
        if keybags.isArmed { _ = keybags.finish() }
    }

    private mutating func take(_ event: Input) {
        switch event {
        case .session(let event): take(event)
        case .timer:
            look()
            tell(.timer)
        case .look: look()
        case .end: break
        }
    }

    private mutating func take(_ event: SessionEvent) {
        switch event {
        case .locked: tell(.sessionLocked, "the session was locked")
        case .unlocked: tell(.sessionUnlocked, "the session was unlocked")
        case .screensaverBegan: tell(.screensaverBegan, "a screensaver began")
        case .screensaverEnded: break  // proves nothing
        case .idle: tell(.idle)
        case .active: tell(.active)
        case .willSleep(let inhibitor):
            self.inhibitor = inhibitor
            tell(.willSleep, "the machine is about to sleep")
        case .woke: tell(.woke)
        case .ended: tell(.sessionEnded, "the last session has gone")
        case .lost(let source): log.warning("\(source.rawValue) cannot be heard")
        case .back(let source): log.info("\(source.rawValue) is heard")
        }
    }

    /// Whether somebody has unlocked or locked by hand.
    private mutating func look() {
        guard looks else { return }
        keybags.listen { [input] in input.yield(.look) }
        let since: UInt64?
        do { since = try keybags.unlockedSince() } catch { return }  // nobody knows: as it was
        guard since != unlockedSince else { return }
        unlockedSince = since
        guard let since else { return tell(.lockedByHand) }
        tell(.unlockedByHand(at: BootClock.now() - .seconds(max(0, Int64(time(nil)) - Int64(clamping: since)))))
    }

    private mutating func tell(_ event: LockSchedule.Event, _ reason: String? = nil) {
        for action in schedule.handle(event, at: BootClock.now()) {
            switch action {
            case .arm(let seconds):
                keybags.arm(seconds: seconds)
                if keybags.isArmed { log.info("\(reason ?? "\(event)"): locks in \(seconds) s") }
            case .cancel: keybags.cancel()
            case .finish: if !keybags.finish() { return tell(.lockFailed) }
            case .lockNow:
                guard keybags.lock() else { return tell(.lockFailed) }
                log.info("\(reason ?? "time is over"): locked")
            case .releaseInhibitor:
                inhibitor?.release()
                inhibitor = nil
            case .setTimer(let deadline): setTimer(deadline)
            }
        }
    }

    private mutating func setTimer(_ deadline: Duration?) {
        timer?.cancel()
        timer = deadline.map { deadline in
            Task { [input] in
                // Sleep may be counted or not; after it the schedule is asked anyway.
                guard (try? await Task.sleep(for: max(.zero, deadline - BootClock.now()))) != nil else { return }
                input.yield(.timer)
            }
        }
    }
}
