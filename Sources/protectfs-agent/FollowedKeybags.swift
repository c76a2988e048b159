import DataProtection
import Glibc
import Logging
import Synchronization

/// The keybags that the agent locks: one, and with `all` every other one that has keys in the ring when it matters.
///
/// Goes on after failures: one keybag that cannot be locked keeps no other one unlocked.
struct FollowedKeybags {
    let own: Keybag
    let followsAll: Bool
    private let log: Logger
    /// What was armed, until it is finished or cancelled.
    private var armed: [Armed] = []
    private let told = ToldFailures()
    /// For the others, whose disks may hang.
    private let patience = Patience()
    /// When the keys of each were loaded, as far as that was known last.
    private var unlockTimes: [KeybagUUID: UInt64] = [:]
    /// Of the own keybag's locks and unlocks.
    private var observation: LockListener.Observation?

    private struct Armed {
        let keybag: Keybag
        /// Nil: arming failed, and so it is locked when the grace is over, whatever happens in between.
        let lock: ArmedLock?
        /// Whether the deadline is ours: somebody else may have armed an earlier one.
        let isOwn: Bool
        /// What somebody else had armed for a later time.
        let later: ArmedLock?
    }

    init(at directory: FilePath, all: Bool, log: Logger) throws(Ending) {
        do throws(DataProtectionError) {
            own = try Keybag(at: directory) { log.warning("\($0.message)") }
        } catch {
            throw Ending(error)
        }
        (followsAll, self.log) = (all, log)
    }

    /// For the log.
    var spoken: String { "'\(own.directory)'\(followsAll ? " and every other unlocked keybag" : "")" }

    /// Whether a lock is armed that has to be finished.
    var isArmed: Bool { !armed.isEmpty }

    /// Arms all of them, the own one first; a keybag that cannot be opened, or is on a disk that hangs, is locked at once, because nobody could
    /// finish it.
    mutating func arm(seconds: UInt32) {
        let before = armed
        armed = []
        let due = BootClock.now() + .seconds(seconds)
        arm(own, seconds: seconds, due: due, before)
        for uuid in others() {
            switch patience.ask("\(uuid)", { try? Keybag.remembered(uuid) }) {
            case .some(let keybag?): arm(keybag, seconds: seconds, due: due, before)
            case .some(nil):
                attempt("lock", uuid) { () throws(DataProtectionError) in try Keybag.lock(uuid) }
            case nil: evict(uuid)
            }
        }
    }

    private mutating func arm(_ keybag: Keybag, seconds: UInt32, due: Duration, _ before: [Armed]) {
        var lock: ArmedLock?
        let found = before.first { $0.keybag.uuid == keybag.uuid && $0.isOwn && $0.lock == keybag.armedLock }
        let later = found.map(\.later) ?? keybag.armedLock
        let went = attempt("arm", keybag) { () throws(DataProtectionError) in try keybag.armLock(seconds: seconds) }
        switch went {
        case .some(nil): return  // it was locked already, or is now
        case .some(let armed?): lock = armed
        case nil: if keybag.uuid != own.uuid { evict(keybag.uuid) }
        }
        let isOurs = before.contains { $0.isOwn && $0.lock == lock && $0.keybag.uuid == keybag.uuid }
        let isNew = lock.map { due <= .nanoseconds(Int64(clamping: $0.deadline)) } ?? true
        armed.append(Armed(keybag: keybag, lock: lock, isOwn: isNew || isOurs, later: later))
    }

    /// Locks what is armed still. What an unlock by hand has ended stays unlocked.
    ///
    /// - Returns: whether all of that went.
    mutating func finish() -> Bool {
        var locked: [Keybag] = []
        armed = armed.filter { armed in
            let went = attempt("lock", armed.keybag) { () throws(DataProtectionError) in
                if let lock = armed.lock, !armed.keybag.isStanding(lock) { return false }
                _ = try armed.keybag.lock(waiting: 0)
                return true
            }
            guard let isLocked = went else { return true }
            let directory = "'\(armed.keybag.directory)'"
            log.info(isLocked ? "locked \(directory)" : "\(directory) was unlocked or locked by hand")
            if isLocked { locked.append(armed.keybag) }
            return false
        }
        // The keys of all of them went before anybody was waited for.
        for keybag in locked { report(keybag) }
        return armed.isEmpty
    }

    /// Ends what is armed, but nothing that somebody else has armed.
    mutating func cancel() {
        for armed in armed where armed.isOwn && armed.lock != nil {
            let went = attempt("cancel the lock of", armed.keybag) { () throws(DataProtectionError) in
                try armed.keybag.cancelArmedLock(armed.lock, restoring: armed.later)
            }
            if went == true {
                let until = armed.later == nil ? "" : ", until the lock that was armed before"
                log.info("'\(armed.keybag.directory)' stays unlocked\(until)")
            }
        }
        armed = []
    }

    /// Locks all of them now.
    ///
    /// - Returns: whether all keys have gone.
    mutating func lock() -> Bool {
        armed = []
        // The own one first: the others may be on disks that answer slowly.
        var went = attempt("lock", own) { [own] () throws(DataProtectionError) in try own.lock(waiting: 0) } != nil
        if followsAll { went = lockOthers() && went }
        if went { report(own) }
        return went
    }

    private func lockOthers() -> Bool {
        let found = attempt("find", "other keybags") { () throws(DataProtectionError) in try Keybag.loadedOrUnlocking()
        }
        guard let found else { return false }
        let others = found.filter { $0 != own.uuid }
        // All keys first: a disk that hangs keeps no other keybag unlocked.
        let unlocked = others.filter { evict($0) == true }
        var went = true
        for uuid in others {
            let wereThere = unlocked.contains(uuid)
            let locked: Void? = attempt("lock", uuid) { () throws(DataProtectionError) in
                try Keybag.lock(uuid, keysWereThere: wereThere)
            }
            if locked == nil { went = false }
        }
        return went
    }

    /// When keys were loaded that are there, first and last, in seconds since 1970; nil: there are none. Looks at no disk.
    ///
    /// - Returns: also whether that is known of all of them. For the others it is as it was.
    mutating func unlocked() -> (times: ClosedRange<UInt64>?, areKnown: Bool) {
        let known = unlockTimes
        var areKnown = true
        unlockTimes = [:]
        for uuid in [own.uuid] + others() {
            let since = attempt("read the unlock time of", "keybag \(uuid)") { () throws(DataProtectionError) in
                try Keybag.unlockedSeconds(of: uuid)
            }
            if since == nil { areKnown = false }
            unlockTimes[uuid] = since ?? known[uuid]
        }
        guard let first = unlockTimes.values.min(), let last = unlockTimes.values.max() else { return (nil, areKnown) }
        return (first...last, areKnown)
    }

    private func report(_ keybag: Keybag) {
        if keybag.uuid == own.uuid { return tell(own.lockReport(waiting: 1)) }
        if let report = patience.ask("\(keybag.uuid)", seconds: 2, { keybag.lockReport(waiting: 1) }) { tell(report) }
    }

    /// What remains after a lock.
    private func tell(_ report: LockReport) {
        for client in report.clients {
            let program = "\(client.program) (process \(client.pid))"
            if !client.hasAnswered { log.warning("\(program) did not respond: it may have a key in memory") }
            if client.unlessOpenHandles > 0 {
                log.info("\(program) goes on; it has unless-open files open: \(client.unlessOpenHandles)")
            }
        }
        for mount in report.mounts where !mount.isServed {
            let programs = mount.holders.map { "\($0.program) (process \($0.pid))" }.joined(separator: ", ")
            let readers = programs.isEmpty ? "" : ", and can be read by \(programs)"
            log.warning(
                "the server of the mount at '\(mount.point)' was killed: what it showed may still be in memory\(readers)"
            )
        }
    }

    /// Calls `tell` from now on when the own keybag is locked or unlocked. Keys whose time is over by CLOCK_BOOTTIME go, though the clock was set back.
    mutating func listen(_ tell: @escaping @Sendable () -> Void) {
        guard observation == nil else { return }
        observation = attempt("listen to", own) { [own] () throws(DataProtectionError) in
            try own.listen { _ in tell() }
        }
    }

    // MARK: others

    /// The other keybags with keys in the ring.
    private func others() -> [KeybagUUID] {
        guard followsAll else { return [] }
        return ((try? Keybag.loaded()) ?? []).filter { $0 != own.uuid }
    }

    /// Takes the keys of another keybag out of the ring, whatever its disk does.
    ///
    /// - Returns: whether they were there; nil if they may be there still.
    @discardableResult
    private func evict(_ uuid: KeybagUUID) -> Bool? {
        attempt("evict the keys of", "keybag \(uuid)") { () throws(DataProtectionError) in
            try Keybag.evictKeys(of: uuid)
        }
    }

    /// Of the own keybag at once, of another one with ``Patience``.
    @discardableResult
    private func attempt<Value: Sendable>(
        _ what: String, _ keybag: Keybag, _ body: @escaping @Sendable () throws(DataProtectionError) -> Value
    ) -> Value? {
        let name = "'\(keybag.directory)'"
        return keybag.uuid == own.uuid ? attempt(what, name, body) : attempt(what, name, of: keybag.uuid, body)
    }

    @discardableResult
    private func attempt<Value: Sendable>(
        _ what: String, _ uuid: KeybagUUID, _ body: @escaping @Sendable () throws(DataProtectionError) -> Value
    ) -> Value? { attempt(what, "keybag \(uuid)", of: uuid, body) }

    private func attempt<Value: Sendable>(
        _ what: String, _ name: String, of uuid: KeybagUUID,
        _ body: @escaping @Sendable () throws(DataProtectionError) -> Value
    ) -> Value? {
        let answer = patience.ask("\(uuid)") { Result { () throws(DataProtectionError) in try body() } }
        if let answer { return attempt(what, name) { () throws(DataProtectionError) in try answer.get() } }
        let areGone = evict(uuid) != nil
        if told.isNew(["silent"], of: "\(what) \(name)") {
            log.error("could not \(what) \(name): its disk does not answer\(areGone ? "; its keys were evicted" : "")")
        }
        return nil
    }

    @discardableResult
    private func attempt<Value>(
        _ what: String, _ name: String, _ body: () throws(DataProtectionError) -> Value
    ) -> Value? {
        let deed = "\(what) \(name)"
        do throws(DataProtectionError) {
            let value = try body()
            _ = told.isNew([], of: deed)
            return value
        } catch {
            if told.isNew([error.logged], of: deed) { log.error("could not \(deed): \(error.logged)") }
            return nil
        }
    }
}

/// What is in the log already. A lock that fails is tried again every second, for hours perhaps, and each failure is logged once.
private final class ToldFailures: Sendable {
    private let failures = Mutex<[String: [String]]>([:])

    /// Whether `deed` failed otherwise, or did not fail, the last time.
    ///
    /// - Parameter texts: why it failed now; none: it went well.
    func isNew(_ texts: [String], of deed: String) -> Bool {
        failures.withLock { failures in
            defer { failures[deed] = texts.isEmpty ? nil : texts }
            return failures[deed] ?? [] != texts
        }
    }
}
