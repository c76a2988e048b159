import DurableFiles
import KernelKeyring
import ProtectionFormat
public import ProtectionKeys
import SystemPackage

extension Keybag {
    /// Loads all class keys as `unlock(passcode:for:allowsNamespace:)` does.
    ///
    /// - Parameters:
    ///   - passcode: 1 to 1,024 bytes.
    ///   - seconds: after how many seconds the kernel itself lets class keys A and B expire; nil: not at all.
    ///   - allowsNamespace: whether to load the keys in a user namespace that locks outside it do not reach.
    package func unlock(
        passcode: borrowing SecretBytes, forSeconds seconds: UInt32?, allowsNamespace: Bool = false
    ) throws(DataProtectionError) {
        guard allowsNamespace || rings.isAtHome else {
            throw .because(KeybagFailure.outOfReachOfLocks(keybag: directory))
        }
        try unlock(.all, passcode, seconds)
    }

    /// Loads class key C into the kernel keyring, and neither A nor B private: for a machine where nobody is.
    ///
    /// Files of class C open afterwards, as after an unlock and a lock; a keybag that is unlocked stays so. Everything else
    /// is as with `unlock(passcode:for:allowsNamespace:)`.
    /// - Parameter passcode: 1 to 1,024 bytes.
    public func unlockOnlyFirstUnlock(passcode: borrowing SecretBytes) throws(DataProtectionError) {
        try unlock(.onlyFirstUnlock, passcode, nil)
    }

    private func unlock(
        _ extent: OpenedKeys.Extent, _ passcode: borrowing SecretBytes, _ seconds: UInt32?
    ) throws(DataProtectionError) {
        // First of all: a lock from now on stops this unlock, whichever copy of the keybag it is told of.
        let note = ring.process == nil ? try UnlockUnderWay(of: uuid, in: directory) : nil
        defer { note?.end() }
        let counter = try transition.readStrictly().counter
        var loaded = try file.load()
        // Again if the keys were rotated in between. It stays the unlock that began above: a lock since then stops it.
        while true {
            let key = try openWithPasscode(passcode, loaded)
            if !loaded.copy.holds(.secrets) { loaded = try addSecretsKeys(loaded, key) }
            let keys = try OpenedKeys(loaded, key, directory, extent)
            if try load(keys, seconds: seconds, ifCounterIs: counter, noted: note) { break }
            loaded = try file.load()
        }
        cache(loaded.copy)
        if loaded.needsRepair {
            do throws(DataProtectionError) { try file.repair(loaded) } catch {
                warn(.keybagNotRepaired(directory, error))
            }
        }
        settleHardware()
        KeybagRegistry.note(self)
        followUp.perform(in: directory, warn: warn)
    }

    /// Gives a keybag that was made before there were secrets their class keys. It unlocks without them too.
    private func addSecretsKeys(
        _ loaded: KeybagFile.Loaded, _ key: borrowing KeybagKey
    ) throws(DataProtectionError) -> KeybagFile.Loaded {
        do throws(DataProtectionError) {
            _ = try file.replace { now throws(DataProtectionError) in
                guard now.bytes == loaded.bytes else { throw .busy(directory) }
                return try withKeybagKeys { () throws(KeyError) in
                    guard try KeybagCopy.isMACGood(now.bytes, under: key) else { throw .authenticationFailed }
                    var copy = now.copy
                    copy.sequence += 1
                    copy.entries += try ClassKeyEntry.secrets(copy.active(.complete).generation, under: key)
                    return try copy.encoded(under: key)
                }
            }
            return try file.load()
        } catch .busy {
            // Another first unlock has done it, or else the next one does.
            guard let now = try? file.load(), now.copy.slot(.passcode) == loaded.copy.slot(.passcode) else {
                return loaded
            }
            return now
        } catch {
            warn(.keybagNotRepaired(directory, error))
            return loaded
        }
    }

    /// Ends a lock that is armed but not due: the keys never left. For an agent that saw the session unlock.
    ///
    /// - Parameter armed: end only this lock, not one that another process armed for an earlier time; nil: any.
    /// - Returns: false if there was nothing to end: the keys had gone, or no lock was armed. Always in a time namespace, whose clock is a different one.
    /// - Throws: `busy` if another process kept its place in the order of locks and unlocks for a second: an agent that follows a session must not
    ///   wait for a stopped process. `keyringUnavailable`, `system`.
    @discardableResult
    public func cancelArmedLock(_ armed: ArmedLock? = nil) throws(DataProtectionError) -> Bool {
        try cancelArmedLock(armed, restoring: nil)
    }

    /// - Parameter later: a lock that somebody else had armed, and that `armed` came before: it stands again.
    package func cancelArmedLock(
        _ armed: ArmedLock?, restoring later: ArmedLock?
    ) throws(DataProtectionError) -> Bool {
        try transition.exclusively(isPatient: false) { record throws(DataProtectionError) in
            guard Clock.isOfMachine, record.deadline != 0, record.deadline == armed?.deadline ?? record.deadline else {
                return false
            }
            let deadline = record.deadline
            record.deadline = later?.deadline ?? 0
            let seconds = secondsToExpiry(record)
            do throws(Errno) {
                try ring.write { () throws(Errno) in
                    try ring.unlocked.setTimeout(seconds: seconds)
                }
            } catch {
                guard RingKey.isAbsent(error) else { throw .because(KeybagFailure.keyringUnavailable(error)) }
                record.deadline = deadline
                record.noteEviction(foundKeys: false)
                return false
            }
            announce(later == nil ? .didBecomeAvailable : .willBecomeUnavailable, record)
            return true
        }
    }

    /// Checks the passcode, counting the attempt, and opens the keybag key.
    package func openWithPasscode(
        _ passcode: borrowing SecretBytes, _ loaded: KeybagFile.Loaded
    ) throws(DataProtectionError) -> KeybagKey {
        let opening = try passcodeOpening(passcode, loaded)
        return opening.key
    }

    /// The same, and what a keybag that is bound to hardware needs to be bound again.
    func passcodeOpening(
        _ passcode: borrowing SecretBytes, _ loaded: KeybagFile.Loaded
    ) throws(DataProtectionError) -> PasscodeOpening {
        try TemporaryKeys.refusePasscode(of: self)
        try Self.checkPasscode(passcode)
        guard let slot = loaded.copy.slot(.passcode) else {
            throw .because(KeybagFailure.keybagDamaged(directory, reason: "it has no passcode slot"))
        }
        try DerivationFloor.check(slot.iterations, of: directory)
        let share = try hardwareShare(of: loaded.copy)
        let device = try deviceKeys.load(for: loaded.copy, in: directory)
        let before = try attempts.begin()
        if let share { return try open(slot, with: share, passcode, device, before: before) }
        let trial = try Self.trial(passcode, slot, device, uuid)
        guard let key = trial.key else {
            throw wrongPasscode(try attempts.failed(guess: trial.guessTag, before: before))
        }
        try attempts.succeeded()
        return PasscodeOpening(key: key, hardware: nil)
    }

    func wrongPasscode(_ count: (failures: Int, retryAfter: Int)) -> DataProtectionError {
        .because(
            KeybagFailure.wrongPasscode(
                keybag: directory, failures: count.failures, retryAfter: .seconds(count.retryAfter)))
    }

    /// What came of a passcode.
    private struct Trial: ~Copyable {
        let guessTag: UInt16
        let key: KeybagKey?
    }

    private static func trial(
        _ passcode: borrowing SecretBytes, _ slot: KeybagSlot, _ device: borrowing DeviceKey, _ uuid: KeybagUUID
    ) throws(DataProtectionError) -> Trial {
        defer { SecretBytes.scrubStack() }
        do throws(KeyError) {
            let kek = try PasscodeKEK(
                passcode: passcode, salt: slot.salt, iterations: slot.iterations, device: device, keybag: uuid)
            do throws(KeyError) {
                return Trial(guessTag: kek.guessTag, key: try kek.unwrap(slot.wrapped))
            } catch .unwrapFailed {
                return Trial(guessTag: kek.guessTag, key: nil)
            }
        } catch {
            throw .cryptography(error)
        }
    }
}
