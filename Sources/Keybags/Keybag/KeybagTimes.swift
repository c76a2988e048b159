import DurableFiles
public import FoundationEssentials
public import ProtectionKeys

// Times as applications have them. The keybag's files, the kernel and our commands count seconds.

extension Keybag {
    /// Loads all class keys into the kernel keyring, or none.
    ///
    /// It takes about half a second, on the thread that calls. In asynchronous code there is an `async` form, with the same name, which
    /// waits without a thread of Swift's pool.
    ///
    /// The attempt is recorded before it is made. A lock that anybody makes meanwhile wins.
    /// - Parameters:
    ///   - passcode: 1 to 1,024 bytes.
    ///   - time: after how long the kernel itself lets class keys A and B expire, in whole seconds, rounded up, one at least; nil: not
    ///     at all.
    ///   - allowsNamespace: whether to load the keys in a user namespace that locks outside it do not reach.
    /// - Throws: `wrongPasscode`, `throttled`, `otherDevice`, `lockedMeanwhile`, `keyringUnavailable`,
    ///   `attemptsNotRecorded`, `keybagDamaged`, `outOfReachOfLocks`, `tooManyNamespaces`.
    public func unlock(
        passcode: borrowing SecretBytes, for time: Duration? = nil, allowsNamespace: Bool = false
    ) throws(DataProtectionError) {
        let seconds = time.map { UInt32(clamping: max(1, $0.wholeSeconds)) }
        try unlock(passcode: passcode, forSeconds: seconds, allowsNamespace: allowsNamespace)
    }

    /// Locks as ``lock()`` does, and says what remains.
    ///
    /// Evicts the keys at once. Then waits until the other processes with open files have ended the operations that had a key, and have
    /// committed what was written.
    /// - Parameter time: how long they are waited for at most; not at all where nobody has files open.
    /// - Throws: `lockIncomplete`, `keyringUnavailable`; `keysElsewhere` if the keyring of another user namespace still holds the
    ///   keys; `lockUnproven` if an unlock that is under way may load keys again. The keys in this process's keyring are gone even then, and
    ///   nobody was waited for: ``lockReport(waiting:)`` does that.
    public func lock(waiting time: Duration) throws(DataProtectionError) -> LockReport {
        try lock(waiting: time.inSeconds)
    }

    /// What remains of the last lock: waits until every process has answered it, `time` at most.
    ///
    /// For a caller that locks several keybags: evict all keys first, then wait for programs. Empty while the keybag is unlocked.
    public func lockReport(waiting time: Duration) -> LockReport { lockReport(waiting: time.inSeconds) }

    /// Arms a lock that comes after `time`, so that programs can save, and returns at once.
    ///
    /// The kernel itself lets the keys expire within a second after that, even if the caller dies. The caller that armed the lock calls
    /// ``finishLock(_:)`` when its ``ArmedLock/timeLeft`` is over. An unlock, or ``cancelArmedLock(_:)``, ends it; ``lock()`` overtakes it. An armed
    /// lock or a limited unlock that ends earlier is not postponed. This locks at once and warns if the kernel refuses the timeout, the deadline
    /// cannot be written down, or a running unlock may load keys without it: nothing would evict the keys if the caller died. It also locks at once in
    /// a time namespace, whose clock is a different one.
    /// - Parameter time: in whole seconds, rounded up.
    /// - Returns: what to give to ``finishLock(_:)``; nil if it was locked already, or this call has locked it.
    /// - Throws: what ``lock()`` throws.
    public func armLock(after time: Duration) throws(DataProtectionError) -> ArmedLock? {
        try armLock(seconds: UInt32(clamping: time.wholeSeconds))
    }
}

extension ArmedLock {
    /// How long it is until the lock; zero: it is due.
    public var timeLeft: Duration { .seconds(secondsLeft) }
}

extension KeybagStatus {
    /// When class keys A and B were loaded.
    public var unlockedSince: Date? { unlockedSeconds.map { Date(secondsSince1970: $0) } }
    /// When class key C was loaded.
    public var firstUnlockSince: Date? { firstUnlockSeconds.map { Date(secondsSince1970: $0) } }
    /// When the last lock or unlock was; a hint. A lock that found no keys to evict does not count.
    public var lastTransition: Date? { lastTransitionSeconds.map { Date(secondsSince1970: $0) } }
    /// How long it is until an armed lock or the end of a limited unlock; a hint.
    public var timeUntilLock: Duration? { secondsUntilLock.map { .seconds($0) } }
}
