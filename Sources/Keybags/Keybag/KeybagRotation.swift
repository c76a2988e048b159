import DurableFiles
import Glibc
import ProtectionFormat
public import ProtectionKeys
import SystemPackage

/// New class keys in the place of those that an old copy of the keybag has. FORMAT.md §2.11.
///
///     let opened = try keybag.open(passcode: passcode)
///     let generation = try opened.rotate(passcode: passcode)
///     try keybag.awaitUnnamedFiles(before: generation)             // files that are being written get their names
///     for path in paths { try keybag.rewrap(fileAt: path) }        // old keys open what is not done yet
///     try keybag.open(passcode: passcode).forgetRetiredKeys(before: generation)      // and now no more
extension OpenedKeybag {
    /// Makes class keys of a new generation, and a new keybag key: no earlier copy of the keybag leads to them.
    ///
    /// New files are wrapped under the new keys from then on, in every process. Files that are there open as before, by the
    /// retired keys, until ``Keybag/rewrap(fileAt:)`` was called for them; no file is touched here. A recovery code that
    /// there was opens the keybag no more, because it opened the keybag key that is replaced. To ask for it and keep it would keep
    /// a code that may have been found together with the copy.
    /// - Parameter passcode: opens the keybag from then on: the one so far, or a new one. 1 to 1,024 bytes.
    /// - Returns: the new generation.
    /// - Throws: `locked` unless the keybag is unlocked, `lockedMeanwhile`, `tooManyGenerations`, `busy`, `keyringUnavailable`, `system`: nothing
    ///   has changed then, in the keyring neither; `keybagUnconfirmed`.
    @discardableResult
    public consuming func rotate(passcode: borrowing SecretBytes) throws(DataProtectionError) -> UInt32 {
        try rotate(passcode, nil, binding) { _ in nil }
    }

    /// The same with a recovery code in the place of one that there was.
    ///
    /// - Parameters:
    ///   - passcode: as above.
    ///   - recoveryCode: new, and shown to the user already: it cannot be had a second time.
    @discardableResult
    public consuming func rotate(
        passcode: borrowing SecretBytes, recoveryCode: borrowing RecoveryCode
    ) throws(DataProtectionError) -> UInt32 {
        try rotate(passcode: passcode, recoveryCode: recoveryCode, binding)
    }

    /// The same with a given number of iterations: tests use few.
    @discardableResult
    package consuming func rotate(
        passcode: borrowing SecretBytes, iterations: Int
    ) throws(DataProtectionError) -> UInt32 {
        try rotate(passcode, iterations, binding) { _ in nil }
    }

    /// The same with given numbers of iterations: tests use few.
    @discardableResult
    package consuming func rotate(
        passcode: borrowing SecretBytes, _ iterations: Int, _ recoveryCode: borrowing RecoveryCode,
        _ recoveryIterations: Int
    ) throws(DataProtectionError) -> UInt32 {
        try rotate(
            passcode: passcode, iterations, recoveryCode, recoveryIterations, binding)
    }

    /// The same, and binds the keybag to hardware or does not.
    @discardableResult
    package consuming func rotate(
        passcode: borrowing SecretBytes, recoveryCode: borrowing RecoveryCode, _ binding: HardwareBinding
    ) throws(DataProtectionError) -> UInt32 {
        try rotate(passcode: passcode, nil, recoveryCode, KeybagSlot.leastIterations, binding)
    }

    /// The same with given numbers of iterations: tests use few.
    ///
    /// - Parameter iterations: nil: as many as this machine can afford.
    @discardableResult
    package consuming func rotate(
        passcode: borrowing SecretBytes, _ iterations: Int?, _ recoveryCode: borrowing RecoveryCode,
        _ recoveryIterations: Int, _ binding: HardwareBinding
    ) throws(DataProtectionError) -> UInt32 {
        try rotate(passcode, iterations, binding) { key throws(DataProtectionError) in
            try Keybag.recoverySlot(recoveryCode, recoveryIterations, key)
        }
    }

    /// The same.
    ///
    /// - Parameters:
    ///   - iterations: nil: as many as this machine can afford.
    ///   - recoverySlot: the slot of a recovery code under the new keybag key; nil: none.
    package consuming func rotate(
        _ passcode: borrowing SecretBytes, _ iterations: Int?, _ binding: HardwareBinding,
        _ recoverySlot: (borrowing KeybagKey) throws(DataProtectionError) -> KeybagSlot?
    ) throws(DataProtectionError) -> UInt32 {
        try Keybag.checkPasscode(passcode)
        let counter = try keybag.counterWhileUnlocked()
        let old = try copyNow()
        // Somebody with an old copy of the keybag, its passcode and a first-unlock secret would have the way to the new keys.
        var new = old
        new.removeFirstUnlockShares()
        let added = ClassKeyKind.allCases.map(\.classes.count).reduce(0, +) + (binding == .bound ? 1 : 0)
        guard new.entries.count + added <= KeybagCopy.maximumEntryCount,
            old.usedEntries.allSatisfy({ $0.generation < .max })
        else {
            throw .because(KeybagFailure.tooManyGenerations(keybag.directory))
        }
        let newKey = try withKeys { () throws(KeyError) in try KeybagKey.random(for: keybag.uuid) }
        let codeSlot = try recoverySlot(newKey)
        new.sequence += 1
        new.removeHardwareShares()
        let device = try deviceKey()
        try keybag.withKeybagKeys { () throws(KeyError) in
            try new.rotateKeys(from: key, to: newKey, device)
        }
        let generation = new.active(.complete).generation
        try withNewPasscodeSlot(passcode, iterations, binding, under: newKey) { slot throws(DataProtectionError) in
            new.slots = [slot.slot]
            if let codeSlot { new.slots.append(codeSlot) }
            if let share = slot.share { new.entries.append(share.entry) }
            let bytes = try withKeys { () throws(KeyError) in try new.encoded(under: newKey) }
            let keys = try OpenedKeys(KeybagFile.Loaded(unstored: new, bytes), newKey, keybag.directory)
            try keybag.exchange(keys, ifCounterIs: counter, .ringFirst(generation: generation)) {
                () throws(DataProtectionError) in try store(new, bytes, inPlaceOf: old)
            }
        }
        return generation
    }

    /// - Throws: `busy` if another copy is in force by now.
    private borrowing func store(
        _ new: KeybagCopy, _ bytes: [UInt8], inPlaceOf old: KeybagCopy
    ) throws(DataProtectionError) {
        try replace { copy throws(DataProtectionError) in
            copy.sequence -= 1
            guard copy == old else { throw .busy(keybag.directory) }
            copy = new
            return bytes
        }
    }

    /// Drops the class keys of earlier generations: files still under them, here and in backups, become unreadable except with an earlier copy or
    /// export of the keybag.
    ///
    /// Look for such files first, with ``Keybag/needsRewrap(fileAt:)``, after ``Keybag/awaitUnnamedFiles(before:)``. Files on a disk that is not
    /// mounted are not found.
    /// - Parameters:
    ///   - generation: retired generations before this one are dropped. Pass the generation that was active *before* the search for files: a rotation
    ///     during the search retires keys that files already checked are still under.
    ///   - secretsAreRewrapped: whether `SecretStore.rewrap()` has rewrapped all stored secrets since. Where there are any and
    ///     it has not, the retired class keys of secrets stay.
    /// - Throws: `locked` unless the keybag is unlocked; `busy`, `keybagUnconfirmed`. Damaged copies of the keybag that a
    ///   restore has kept are left, with a warning each, `forgottenKeysLeft`.
    public consuming func forgetRetiredKeys(
        before generation: UInt32, secretsAreRewrapped: Bool = false
    ) throws(DataProtectionError) {
        let hasSecrets = try keybag.hasSecrets
        let forgotten: [ClassKeyKind] = secretsAreRewrapped || !hasSecrets ? [.files, .secrets] : [.files]
        let counter = try keybag.counterWhileUnlocked()
        let old = try copyNow()
        var new = old
        new.sequence += 1
        new.entries.removeAll { entry in
            entry.state == .retired && entry.generation < generation && forgotten.contains { entry.isOf($0) }
        }
        let left = new.firstUnlockGenerations
        new.removeFirstUnlockShares { !left.contains($0.generation) }
        try renewingHardware { bound throws(DataProtectionError) in
            if let bound { new.bind(bound) }
            let bytes = try withKeys { () throws(KeyError) in try new.encoded(under: key) }
            let keys = try OpenedKeys(KeybagFile.Loaded(unstored: new, bytes), key, keybag.directory)
            try keybag.exchange(keys, ifCounterIs: counter, .keybagFirst) { () throws(DataProtectionError) in
                try store(new, bytes, inPlaceOf: old)
            }
        }
        for copy in try keybag.file.copiesAside() { keybag.warn(.forgottenKeysLeft(copy)) }
    }
}

extension Keybag {
    /// Waits until every finished file under class keys of earlier generations has its name, in all processes. Before that, no search for files
    /// that still need those keys finds it.
    ///
    /// This takes no longer than a flush. A process that is stopped in that moment can keep the caller waiting for three seconds.
    /// - Parameter generation: the active one.
    /// - Throws: `busy` with the path of the keybag if such a file still has no name; `system` if that cannot be seen.
    public func awaitUnnamedFiles(before generation: UInt32) throws(DataProtectionError) {
        let end = Clock.monotonic() + 3_000_000_000
        while try PublicationMark.isThere(ofKeybag: directory, before: generation) {
            guard Clock.monotonic() < end else { throw .busy(directory) }
            usleep(1_000)
        }
    }

    /// The generations of class keys that open old files and wrap no new ones, in ascending order.
    public var retiredGenerations: [UInt32] {
        Set(lastKnown.usedEntries.filter { $0.state == .retired }.map(\.generation)).sorted()
    }

    /// Whether there is a store of secrets. FORMAT.md §2.15. One that cannot be reached counts: a link to a disk that is away, for example.
    ///
    /// - Throws: `system` if that cannot be seen.
    public var hasSecrets: Bool {
        get throws(DataProtectionError) { try directory.appending(SecretsKeys.directoryName).isThere() }
    }

    /// The generation of the class keys that wrap new files: 1, and one more for each rotation.
    public var activeGeneration: UInt32 { lastKnown.active(.complete).generation }

    /// The lock counter. Read before the state, so that a lock after it is seen.
    fileprivate func counterWhileUnlocked() throws(DataProtectionError) -> UInt64 {
        let counter = try transition.readStrictly().counter
        guard try state() == .unlocked else { throw .locked(self, directory, .complete, .rotateKeys) }
        return counter
    }
}
