import LockSchedule

/// A machine with keys, a clock and an inhibitor, that does what a schedule says, and knows by itself what must be so.
///
/// What it knows is written down without the schedule's way of thinking: for each reason to lock, when the keys must be gone.
struct World {
    private(set) var schedule: LockSchedule
    private let limits: LockSchedule.Limits
    private(set) var now = Duration.seconds(1000)
    private(set) var hasKeys = true
    private(set) var holdsInhibitor = false
    private var timer: Duration?
    /// What `arm` has left in the keybag, for `finish`; an unlock by hand takes it away.
    private var isArmed = false
    /// How many of the next locks fail.
    private var failures = 0

    /// For each reason, when the keys must be gone.
    private var due: [Reason: Duration] = [:]
    private var isIdle = false
    /// A lock whose time had come has failed: it is tried on and on.
    private var isOverdue = false
    private(set) var violations: [String] = []

    private enum Reason { case screen, absence, age }

    init(limits: LockSchedule.Limits) {
        (self.limits, schedule) = (limits, LockSchedule(limits: limits))
        due[.age] = limits.longest.map { now + .seconds($0) }
        tell(.unlockedByHand(at: now))
    }

    /// What can happen in a sequence.
    enum Step: CaseIterable {
        case locked, unlocked, screensaver, willSleep, woke, ended, idle, active, passcode, lockedElsewhere, secondGoes,
            timerGoes, nextLockFails
    }

    mutating func take(_ step: Step) {
        let (had, wasArmed, reasons) = (hasKeys, isArmed, due)
        now += .milliseconds(1)  // no two things happen at once
        switch step {
        case .locked: screenLocks(.sessionLocked)
        case .screensaver: screenLocks(.screensaverBegan)
        case .unlocked:
            due[.screen] = nil
            tell(.sessionUnlocked)
        case .willSleep:
            holdsInhibitor = true
            tell(.willSleep)
            if hasKeys && !isOverdue { violate("keys after willSleep") }
        case .woke: tell(.woke)
        case .ended:
            tell(.sessionEnded)
            if hasKeys && !isOverdue { violate("keys after the last session") }
        case .idle:
            isIdle = true
            if due[.absence] == nil { due[.absence] = limits.idle.map { now + .seconds($0) } }
            tell(.idle)
        case .active:
            (isIdle, due[.absence]) = (false, nil)
            tell(.active)
        case .passcode:
            hasKeys = true
            (isArmed, isOverdue) = (false, false)
            due[.screen] = nil
            due[.age] = limits.longest.map { now + .seconds($0) }
            if isIdle { due[.absence] = limits.idle.map { now + .seconds($0) } }
            tell(.unlockedByHand(at: now))
        case .lockedElsewhere:
            hasKeys = false
            isArmed = false
            tell(.lockedByHand)
        case .secondGoes: pass(until: now + .seconds(1))
        case .timerGoes: if let timer { pass(until: max(timer, now)) }
        case .nextLockFails: failures = 1
        }
        check(step, had: had, wasArmed: wasArmed, reasons)
    }

    private mutating func screenLocks(_ event: LockSchedule.Event) {
        due[.screen] = min(due[.screen] ?? now + .seconds(limits.grace), now + .seconds(limits.grace))
        tell(event)
    }

    private mutating func pass(until then: Duration) {
        while let timer, timer <= then {
            now = max(now, timer)
            self.timer = nil
            tell(.timer)
        }
        now = max(now, then)
    }

    private mutating func tell(_ event: LockSchedule.Event) {
        for action in schedule.handle(event, at: now) {
            switch action {
            case .arm: isArmed = hasKeys
            case .cancel: isArmed = false
            case .finish: if isArmed, !lock() { return tell(.lockFailed) }
            case .lockNow: if !lock() { return tell(.lockFailed) }
            case .releaseInhibitor:
                if hasKeys { violate("released with keys there") }
                holdsInhibitor = false
            case .setTimer(let time): timer = time
            }
        }
    }

    private mutating func lock() -> Bool {
        guard failures == 0 else {
            failures -= 1
            isOverdue = true
            return false
        }
        (hasKeys, isArmed, isOverdue) = (false, false, false)
        return true
    }

    private mutating func check(_ step: Step, had: Bool, wasArmed: Bool, _ reasons: [Reason: Duration]) {
        if !hasKeys { due = due.filter { $0.key == .absence && $0.value > now } }
        if hasKeys, let first = due.values.min(), first <= now, !isOverdue { violate("late") }
        if hasKeys, isOverdue, timer.map({ $0 > now + .seconds(8) }) ?? true { violate("a failed lock was given up") }
        if hasKeys, !isOverdue, let first = due.values.min(), timer.map({ $0 > first }) ?? true {
            violate("no timer in time")
        }
        if wasArmed, !isArmed, hasKeys, ![.unlocked, .passcode].contains(step) {
            if !isOverdue { violate("un-armed by something else") }
        }
        let mayLock: Set<Step> = [.willSleep, .ended, .lockedElsewhere]
        if had, !hasKeys, !mayLock.contains(step), !(limits.grace == 0 && [.locked, .screensaver].contains(step)) {
            let wasDue = reasons.values.contains { $0 <= now }
            if !wasDue, ![.secondGoes, .timerGoes].contains(step) { violate("locked without a reason") }
            if !wasDue, [.secondGoes, .timerGoes].contains(step), !hadFailed { violate("locked early") }
        }
        if isOverdue { hadFailed = true }
    }
    /// After a failure the times at which it is tried again are due too.
    private var hadFailed = false

    private mutating func violate(_ what: String) { violations.append(what) }
}
