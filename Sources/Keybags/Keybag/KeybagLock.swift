import DurableFiles
import Glibc
import KernelKeyring
import ProtectionFormat
import ProtectionKeys
import SystemPackage

extension Keybag {
    /// Evicts class keys A and B private from the kernel keyring at once. Idempotent; a no-op before first unlock. Those of keybags
    /// that were used in this directory before go too.
    ///
    /// Wins over any unlock that began before it. Returns only when a search for the keys says that they are gone, and when it is certain that no
    /// unlock which began before it loads keys afterwards. Then it waits as ``lock(waiting:)`` does, one second at most.
    /// - Throws: `lockIncomplete`, `keyringUnavailable`, `keysElsewhere`, `lockUnproven`.
    public func lock() throws(DataProtectionError) { _ = try lock(waiting: 1) }

    /// The same, and says what remains.
    ///
    /// Evicts the keys at once. Then waits until the other processes with open files have ended the operations that had a key, and have
    /// committed what was written.
    /// - Parameter seconds: how long they are waited for at most; not at all where nobody has files open.
    /// - Throws: `lockIncomplete`, `keyringUnavailable`; `keysElsewhere` if the keyring of another user namespace still holds the
    ///   keys; `lockUnproven` if an unlock that is under way may load keys again. The keys in this process's keyring are gone even then, and
    ///   nobody was waited for: ``lockReport(waiting:)`` does that.
    package func lock(waiting seconds: Double) throws(DataProtectionError) -> LockReport {
        try lock(waiting: seconds, keysWereThere: false)
    }

    /// - Parameter keysWereThere: whether the caller has just evicted class keys A and B.
    package func lock(waiting seconds: Double, keysWereThere: Bool) throws(DataProtectionError) -> LockReport {
        // Before anything that can wait, for a process that is stopped or for a disk. What fails is tried again.
        let wereThere = ring.holdsUnlocked || keysWereThere
        try? ring.evict()
        let doubt = stopUnlocksOfCopies()
        let turn: LockTurn
        var areElsewhere: Bool? = false
        do throws(DataProtectionError) {
            turn = try transition.lockTurn(proven: endUnlocks) { record throws(DataProtectionError) in
                let areThere = ring.holdsUnlocked
                try ring.evict()
                rings.remove()
                areElsewhere = self.areElsewhere
                record.noteEviction(foundKeys: areThere || wereThere, keepingEnd: areElsewhere != false)
                announce(.didBecomeUnavailable, record)
            }
        } catch {
            try? KeybagRegistry.evictPredecessors(of: self)  // what led here is worse
            throw error
        }
        try KeybagRegistry.evictPredecessors(of: self)
        try rings.refuseElsewhere()
        followUp.perform(in: directory, warn: warn)
        try turn.requireProof(of: directory)
        if let doubt { throw doubt }
        // Not before the doubt: an unlock that is stopped has keys elsewhere, too.
        if areElsewhere == true { throw otherNamespaceFailure }
        if try ring.isUnlockedElsewhere() { throw otherNamespaceFailure }
        return lockReport(waiting: seconds)
    }

    /// Whether keys are in another user namespace, which this lock cannot reach; nil: that cannot be looked up. Unless there are none, the time at which
    /// they go must not be forgotten.
    private var areElsewhere: Bool? {
        do throws(DataProtectionError) {
            guard try rings.elsewhere().isEmpty else { return true }
            return try ring.isUnlockedElsewhere()
        } catch { return nil }
    }

    /// Why a lock fails where only the kernel knows of keys in another user namespace.
    var otherNamespaceFailure: DataProtectionError {
        .because(KeybagFailure.keysElsewhere(keybag: directory, namespaces: []))
    }

    /// Stops the unlocks that are under way of this keybag in other directories. Their keys come into the same ring. To be called before the keys
    /// are evicted for the last time.
    ///
    /// - Returns: why one of them may load keys all the same; nil: none can.
    private func stopUnlocksOfCopies() -> DataProtectionError? {
        ring.process == nil ? UnlockUnderWay.stop(uuid, outside: try? directory.absolute()) : nil
    }

    /// The same of this keybag where it is, when its counter was raised.
    private func endUnlocks() { if ring.process == nil { UnlockUnderWay.end(uuid, in: try? directory.absolute()) } }

    /// Arms a lock `seconds` from now, so that programs can save, and returns at once.
    ///
    /// The kernel itself lets the keys expire within a second after that, even if the caller dies. The caller that armed the lock calls
    /// ``finishLock(_:)`` at its deadline. An unlock, or ``cancelArmedLock(_:)``, ends it; ``lock()`` overtakes it. An armed lock or a limited unlock
    /// that ends earlier is not postponed. This locks at once and warns if the kernel refuses the timeout, the deadline cannot be written down, or a
    /// running unlock may load keys without it: nothing would evict the keys if the caller died. It also locks at once in a time namespace, whose clock is a
    /// different one.
    /// - Returns: what to give to ``finishLock(_:)``; nil if it was locked already, or this call has locked it.
    /// - Throws: what ``lock()`` throws.
    package func armLock(seconds: UInt32) throws(DataProtectionError) -> ArmedLock? {
        var armed: ArmedLock?
        var refusal: Errno?
        let doubt = stopUnlocksOfCopies()
        let turn = try transition.lockTurn(proven: endUnlocks) { record throws(DataProtectionError) in
            // A process elsewhere would take a time by the clock of a time namespace for one by its own.
            guard Clock.isOfMachine else {
                refusal = .notSupported
                return
            }
            if !Clock.mayBeThisBoot(record.bootID) { (record.deadline, record.limit) = (0, 0) }
            let earlierDeadline = record.deadline
            if earlierDeadline == 0 { noteUnknownExpiry() }
            let deadline = Clock.bootTime() + UInt64(seconds) * 1_000_000_000
            if record.deadline == 0 || record.deadline > deadline { record.deadline = deadline }
            record.bootID = Clock.bootID()
            do throws(Errno) {
                let seconds = try secondsInRing(atMost: secondsToExpiry(record))
                try ring.write { () throws(Errno) in
                    try ring.unlocked.setTimeout(seconds: seconds)
                }
            } catch {
                record.deadline = earlierDeadline
                // EACCES is not absence here: a key whose permissions were taken away stays as long as nobody removes it.
                guard [.requiredKeyNotAvailable, .keyExpired, .keyRevoked].contains(error) else {
                    refusal = error
                    return
                }
                let areElsewhere = self.areElsewhere
                record.noteEviction(foundKeys: false, keepingEnd: areElsewhere != false)
                try rings.refuseElsewhere()
                if areElsewhere == true { throw otherNamespaceFailure }
                if areElsewhere == nil, try ring.isUnlockedElsewhere() { throw otherNamespaceFailure }
                return
            }
            armed = ArmedLock(deadline: record.deadline)
            announce(.willBecomeUnavailable, record)
        }
        // At once: no program can save a file of a keybag that is not there.
        try KeybagRegistry.evictPredecessors(of: self)
        if armed != nil { refusal = refusal ?? turn.failure }
        guard refusal != nil || turn.doubt != nil || doubt != nil else { return armed }
        defer { if let refusal { warn(.lockNotPutOff(directory, refusal)) } }
        _ = try lock(waiting: 0)
        return nil
    }

    /// How long the kernel is to keep class keys A and B, in seconds, for ``KeySerial/setTimeout(seconds:)``; 0: until somebody takes them away. In
    /// a time namespace no time that was written down says anything.
    func secondsToExpiry(_ record: TransitionRecord) -> UInt32 {
        Clock.isOfMachine ? asItHoldsHere(record).secondsToExpiry : 0
    }

    /// The same, or less, where the kernel says that the keys in the ring expire earlier: what is in no record of this keybag, for example because a
    /// copy of it was unlocked in the same ring, or in another time namespace.
    ///
    /// - Parameter seconds: 0: never.
    /// - Throws: as ``RingKey/timeLeft()``.
    func secondsInRing(atMost seconds: UInt32) throws(Errno) -> UInt32 {
        guard let left = try ring.unlocked.timeLeft(), seconds == 0 || UInt64(seconds) > left.upperBound else {
            return seconds
        }
        return UInt32(clamping: max(left.lowerBound, 1))
    }

    /// The record with the limit of the keys in this namespace's keyring, and not of the last unlock anywhere.
    func asItHoldsHere(_ record: TransitionRecord) -> TransitionRecord { rings.asItHoldsHere(record) }

    /// In how many seconds the kernel removes class keys A and B from the keyring of this namespace at the latest, while `armed` stands.
    package func secondsToExpiry(while armed: ArmedLock) -> Double {
        let limit = asItHoldsHere(transition.read()).limit
        return limit == 0 ? armed.secondsLeft : min(armed.secondsLeft, ArmedLock(deadline: limit).secondsLeft)
    }

    /// Takes over the time at which the kernel removes the keys, if it is earlier than their unlock has noted here. A copy of this keybag may have
    /// been unlocked since, for a shorter time, in the same ring.
    private func noteUnknownExpiry() {
        let now = Clock.bootTime()
        guard let left = try? ring.unlocked.timeLeft() else { return }
        let known = rings.expiryHere ?? 0
        guard known == 0 || known > now + (left.upperBound + 1) * 1_000_000_000 else { return }
        try? rings.add(expiry: now + max(left.lowerBound, 1) * 1_000_000_000)
    }

    /// The lock that is armed now, by any process; nil if none is.
    package var armedLock: ArmedLock? {
        let record = transition.read()
        return record.deadline != 0 && Clock.mayBeThisBoot(record.bootID) ? ArmedLock(deadline: record.deadline) : nil
    }

    /// Whether an armed lock was neither ended nor overtaken. If it was, nobody needs to wait for its deadline any longer.
    public func isStanding(_ armed: ArmedLock) -> Bool {
        // An unlock would have restored the file.
        guard let now = transition.stored() else { return true }
        // Not the counter: another process that arms the same deadline raises the counter, and ends nothing.
        return now.deadline == armed.deadline
    }

    /// Locks, unless the armed lock was ended or overtaken meanwhile.
    ///
    /// - Returns: whether this call locked.
    @discardableResult
    public func finishLock(_ armed: ArmedLock) throws(DataProtectionError) -> Bool {
        guard isStanding(armed) else { return false }
        try lock()
        return true
    }

    /// Empties the ring of this keybag, as a boot does. For tests, and for erasing.
    ///
    /// - Throws: `lockIncomplete`, `keyringUnavailable`, `lockUnproven`.
    package func evictEverything() throws(DataProtectionError) {
        let doubt = stopUnlocksOfCopies()
        let turn = try transition.lockTurn(proven: endUnlocks) { record throws(DataProtectionError) in
            let areThere = ring.holdsUnlocked
            try ring.evict(everything: true)
            record.noteEviction(foundKeys: areThere)
            announce(.didBecomeUnavailable, record)
        }
        try turn.requireProof(of: directory)
        if let doubt { throw doubt }
    }
}

extension TransitionRecord {
    /// How long the kernel is to keep class keys A and B, in seconds, for ``KeySerial/setTimeout(seconds:)``; 0: until
    /// somebody takes them away.
    package var secondsToExpiry: UInt32 {
        guard let end = [deadline, limit].filter({ $0 != 0 }).min() else { return 0 }
        let now = Clock.bootTime()
        return KeyTimeout.seconds(for: end > now ? end - now : 0, wallTime: Clock.wallTime())
    }

    /// When class keys A and B last came or went, in seconds since 1970; nil if that is not known. A time limit that has passed
    /// counts: the kernel removes keys then without writing here.
    package var lastChange: UInt64? {
        let now = Clock.bootTime()
        guard bootID == Clock.bootID(), let end = [deadline, limit].filter({ $0 != 0 }).min(), end <= now,
            Clock.isOfMachine
        else {
            return changedAt == 0 ? nil : changedAt
        }
        let wallTime = Clock.now()  // read once: the clock can be set back at any moment
        return wallTime - min((now - end) / 1_000_000_000, wallTime)
    }

    /// Notes that class keys A and B are gone. If there were none to remove, they went at an earlier time, which stays.
    ///
    /// - Parameters:
    ///   - foundKeys: whether they were there until now.
    ///   - isKeepingEnd: whether keys that are elsewhere still end at the time that the record has.
    package mutating func noteEviction(foundKeys: Bool, keepingEnd isKeepingEnd: Bool = false) {
        changedAt = foundKeys ? Clock.now() : lastChange ?? 0
        if !isKeepingEnd { limit = 0 }
        // A lock that was armed for these keys has come, too.
        if !isKeepingEnd || foundKeys { deadline = 0 }
    }
}

/// A lock that is going to happen.
public struct ArmedLock: Hashable, Sendable {
    /// CLOCK_BOOTTIME in nanoseconds.
    package let deadline: UInt64

    /// How long to wait, in seconds.
    package var secondsLeft: Double {
        let now = Clock.bootTime()
        return now >= deadline ? 0 : Double(deadline - now) / 1_000_000_000
    }
}
