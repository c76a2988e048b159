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
    /// For whose locks and unlocks somebody listens.
    private var observations: [KeybagUUID: LockListener.Observation] = [:]

    private struct Armed {
        let keybag: Keybag
        /// Nil: arming failed, and so it is locked when the grace is over, whatever happens in between.
        let lock: ArmedLock?
        /// Whether the deadline is ours: somebody else may have armed an earlier one.
        let isOwn: Bool
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

    /// Arms all of them, the kernel's own timeouts first of all; a keybag that cannot be opened is locked at once, because
    /// nobody could finish it.
    mutating func arm(seconds: UInt32) {
        let before = armed
        armed = []
        let due = BootClock.now() + .seconds(seconds)
        for keybag in [own] + others() {
            let went = attempt("arm", keybag) { () throws(DataProtectionError) in
                guard let lock = try keybag.armLock(seconds: seconds) else { return }
                let isOurs = before.contains { $0.isOwn && $0.lock == lock && $0.keybag.uuid == keybag.uuid }
                let isNew = due <= .nanoseconds(Int64(clamping: lock.deadline))
                armed.append(Armed(keybag: keybag, lock: lock, isOwn: isNew || isOurs))
            }
            if !went { armed.append(Armed(keybag: keybag, lock: nil, isOwn: true)) }
        }
        for uuid in strays() {
            attempt("lock", uuid) { () throws(DataProtectionError) in try Keybag.lock(uuid) }
        }
    }

    /// Locks what is armed still. What an unlock by hand has ended stays unlocked.
    ///
    /// - Returns: whether all of that went.
    mutating func finish() -> Bool {
        var locked: [Keybag] = []
        armed = armed.filter { armed in
            let directory = armed.keybag.directory
            return !attempt("lock", armed.keybag) { () throws(DataProtectionError) in
                if let lock = armed.lock, !armed.keybag.isStanding(lock) {
                    return log.info("'\(directory)' was unlocked or locked by hand")
                }
                _ = try armed.keybag.lock(waiting: 0)
                locked.append(armed.keybag)
                log.info("locked '\(directory)'")
            }
        }
        // The keys of all of them went before anybody was waited for.
        for keybag in locked { tell(keybag.lockReport(waiting: 1)) }
        return armed.isEmpty
    }

    /// Ends what is armed, but nothing that somebody else has armed.
    mutating func cancel() {
        for armed in armed where armed.isOwn && armed.lock != nil {
            attempt("cancel the lock of", armed.keybag) { () throws(DataProtectionError) in
                if try armed.keybag.cancelArmedLock(armed.lock) {
                    log.info("'\(armed.keybag.directory)' stays unlocked")
                }
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
        var went = attempt("lock", own) { () throws(DataProtectionError) in _ = try own.lock(waiting: 0) }
        if followsAll { went = lockEach() && went }
        if went { tell(own.lockReport(waiting: 1)) }
        return went
    }

    private func lockEach() -> Bool {
        var failures: [DataProtectionError]
        do throws(DataProtectionError) { failures = try Keybag.lockEach().failures } catch { failures = [error] }
        let texts = failures.map(\.logged)
        if told.isNew(texts, of: "lock each") { for text in texts { log.error("not locked: \(text)") } }
        return texts.isEmpty
    }

    /// When keys were loaded that are there, first and last, in seconds since 1970; nil: there are none.
    ///
    /// - Throws: if that cannot be known of one of them.
    func unlocked() throws(DataProtectionError) -> ClosedRange<UInt64>? {
        var range: ClosedRange<UInt64>?
        for keybag in [own] + others() {
            guard let since = try keybag.status().unlockedSeconds else { continue }
            range = min(range?.lowerBound ?? since, since)...max(range?.upperBound ?? since, since)
        }
        return range
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

    /// Calls `tell` from now on when one of them is locked or unlocked, and begins with those that it does not know yet.
    mutating func listen(_ tell: @escaping @Sendable () -> Void) {
        for keybag in [own] + others() where observations[keybag.uuid] == nil {
            attempt("listen to", keybag) { () throws(DataProtectionError) in
                observations[keybag.uuid] = try LockListener.shared.observe(
                    keybag.directory, of: keybag.uuid, warn: { [log] in log.warning("\($0.message)") }
                ) { _ in
                    tell()
                    return nil
                }
            }
        }
    }

    // MARK: others

    private func others() -> [Keybag] { loaded().compactMap { try? Keybag.remembered($0) } }

    private func strays() -> [KeybagUUID] { loaded().filter { (try? Keybag.remembered($0)) == nil } }

    private func loaded() -> [KeybagUUID] {
        guard followsAll else { return [] }
        return ((try? Keybag.loaded()) ?? []).filter { $0 != own.uuid }
    }

    @discardableResult
    private func attempt(
        _ what: String, _ keybag: Keybag, _ body: () throws(DataProtectionError) -> Void
    ) -> Bool { attempt(what, "'\(keybag.directory)'", body) }

    @discardableResult
    private func attempt(
        _ what: String, _ uuid: KeybagUUID, _ body: () throws(DataProtectionError) -> Void
    ) -> Bool { attempt(what, "keybag \(uuid)", body) }

    private func attempt(
        _ what: String, _ name: String, _ body: () throws(DataProtectionError) -> Void
    ) -> Bool {
        let deed = "\(what) \(name)"
        do throws(DataProtectionError) {
            try body()
            _ = told.isNew([], of: deed)
            return true
        } catch {
            if told.isNew([error.logged], of: deed) { log.error("could not \(deed): \(error.logged)") }
            return false
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
