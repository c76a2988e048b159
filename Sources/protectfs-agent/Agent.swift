import Glibc
import LockSchedule
import Logging
import SessionLock

/// Hands what happens to the schedule, and does what that says. Everything in one order, on one thread.
struct Agent {
    private var keybags: FollowedKeybags
    private var schedule: LockSchedule
    /// Whether the age of keys has a limit.
    private let hasLimit: Bool
    private let log: Logger
    /// Held until the keys have gone.
    private var inhibitor: SleepInhibitor?
    /// When the schedule is asked again, by ``BootClock``.
    private var timer: Duration?
    /// Since when keys have been there, first and last.
    private var unlocked: ClosedRange<UInt64>?
    /// When there were none last: what is there now came later. Times of unlocks are known to a second only.
    private var withoutKeys = Duration.zero
    private let inbox: Inbox

    /// How often it is looked whether another keybag was unlocked: nobody listens on disks that may hang.
    private let lookInterval: Duration

    init(_ keybags: FollowedKeybags, limits: LockSchedule.Limits, hearing inbox: Inbox, log: Logger) {
        (self.keybags, self.inbox, self.log) = (keybags, inbox, log)
        schedule = LockSchedule(limits: limits)
        hasLimit = limits.longest != nil
        lookInterval = .seconds(min(60, max(1, (limits.longest ?? 60) / 4)))
    }

    /// Follows until the inbox has the end. What is armed then is locked at once: nobody else would before the kernel does.
    ///
    /// - Returns: false if something was to be locked and is not known to be.
    mutating func run() -> Bool {
        let looksAround = hasLimit && keybags.followsAll
        var nextLook = looksAround ? BootClock.now() + lookInterval : nil
        keybags.listen { [inbox] in inbox.put(.look) }
        following: while true {
            switch inbox.next(until: [timer, nextLook].compactMap { $0 }.min()) {
            case .session(let event): take(event)
            case .look: look()
            case .end: break following
            case nil:
                let now = BootClock.now()
                if let time = nextLook, time <= now {
                    nextLook = now + lookInterval
                    look()
                }
                if let time = timer, time <= now {
                    timer = nil
                    look()
                    tell(.timer)
                }
            }
        }
        if schedule.owesLock { return keybags.lock() }
        return !keybags.isArmed || keybags.finish()
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
        keybags.listen { [inbox] in inbox.put(.look) }
        let asked = BootClock.now()
        let (now, isKnown) = keybags.unlocked()
        if now == nil, isKnown { withoutKeys = asked }
        guard now != unlocked else { return }
        unlocked = now
        guard let now else { return tell(.lockedByHand) }
        // The last unlock ends what was due before it; the age of keys is that of the first.
        for since in Set([now.upperBound, now.lowerBound]).sorted(by: >) {
            tell(.unlockedByHand(at: max(BootClock.time(ofSecond: since), withoutKeys)))
        }
    }

    private mutating func tell(_ event: LockSchedule.Event, _ reason: String? = nil) {
        for action in schedule.handle(event, at: BootClock.now()) {
            switch action {
            case .arm(let seconds):
                keybags.arm(seconds: seconds)
                if keybags.isArmed { log.info("\(reason ?? "\(event)"): locks in \(seconds) s") }
            case .cancel: keybags.cancel()
            case .finish: if !keybags.finish() { return failed() }
            case .lockNow:
                guard keybags.lock() else { return failed() }
                log.info("\(reason ?? "time is over"): locked")
            case .releaseInhibitor:
                inhibitor?.release()
                inhibitor = nil
            case .setTimer(let deadline): timer = deadline
            }
        }
    }

    /// A lock has failed. Whether it took the keys all the same tells an unlock of that second from one before.
    private mutating func failed() {
        tell(.lockFailed)
        look()
    }
}
