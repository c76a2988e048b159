import DurableFiles
import ProtectionFormat
public import ProtectionKeys
import SystemPackage

/// A keybag whose key is open for a moment: its holder showed the passcode or the recovery code.
///
/// Nothing is changed yet. The caller can first ask for, show and write down what the change needs; dropping this object changes nothing. Each change
/// consumes it, and happens only if the same secret still opens the keybag: of two concurrent changes the second throws `busy`.
///
///     let opened = try keybag.open(recoveryCode: old)
///     let new = try RecoveryCode.random()          // shown to the user before it counts
///     try opened.recover(passcode: passcode, recoveryCode: new)
public struct OpenedKeybag: ~Copyable, Sendable {
    package let keybag: Keybag
    package let key: KeybagKey
    /// What opened it.
    package let slot: KeybagSlot
    /// The keybag as it was then. Passcode and device key, or the recovery code and a MAC, have proved its device id; of a copy that was read
    /// from the disk since then nothing has.
    let opened: KeybagCopy
    /// What binds the keybag to hardware again; nil if it is not bound, or the recovery code opened it.
    let hardware: HardwareOpening?

    /// The device key that goes with it.
    ///
    /// - Throws: `otherDevice`, `deviceKeyUnusable`.
    borrowing func deviceKey() throws(DataProtectionError) -> DeviceKey {
        try keybag.deviceKeys.load(for: opened, in: keybag.directory)
    }

    /// The keybag as it is now.
    ///
    /// - Throws: `busy` if what opened it opens it no more.
    package borrowing func copyNow() throws(DataProtectionError) -> KeybagCopy {
        let copy = try keybag.file.load().copy
        guard copy.slot(slot.kind) == slot else { throw .busy(keybag.directory) }
        return copy
    }

    /// Replaces the keybag by what `change` makes of it. Both copies are replaced when this returns.
    ///
    /// - Throws: `keybagUnconfirmed` if the disk did not confirm the new keybag; else the keybag is as it was. Where the new
    ///   one is in force and its second copy could not be written, that is a warning, `oldCopyLeft`.
    package borrowing func commit(
        _ change: (inout KeybagCopy) throws(KeyError) -> Void
    ) throws(DataProtectionError) {
        try replace { copy throws(DataProtectionError) in
            try keybag.withKeybagKeys { () throws(KeyError) in
                try change(&copy)
                return try copy.encoded(under: key)
            }
        }
    }

    /// The same with the stored form that `change` makes, under whichever keybag key.
    package borrowing func replace(
        _ change: (inout KeybagCopy) throws(DataProtectionError) -> [UInt8]
    ) throws(DataProtectionError) {
        var replacement: KeybagCopy?
        let leftOver = try keybag.file.replace { loaded throws(DataProtectionError) in
            guard loaded.copy.slot(slot.kind) == slot else { throw .busy(keybag.directory) }
            try keybag.withKeybagKeys { () throws(KeyError) in
                guard try KeybagCopy.isMACGood(loaded.bytes, under: key) else { throw .authenticationFailed }
            }
            var copy = loaded.copy
            copy.sequence += 1
            let bytes = try change(&copy)
            replacement = copy
            return bytes
        }
        if let leftOver { keybag.warn(.oldCopyLeft(keybag.directory, leftOver)) }
        if let replacement { keybag.cache(replacement) }
    }
}

extension Keybag {
    /// Runs an operation with the keybag key that fails only where the keybag was altered.
    package func withKeybagKeys<R: ~Copyable>(
        _ body: () throws(KeyError) -> R
    ) throws(DataProtectionError) -> R {
        do throws(KeyError) { return try body() } catch .authenticationFailed {
            throw .because(KeybagFailure.keybagDamaged(directory, reason: "its authentication code is wrong"))
        } catch .unwrapFailed {
            throw .because(
                KeybagFailure.keybagDamaged(directory, reason: "a class key does not open, or is another one"))
        } catch {
            throw .cryptography(error)
        }
    }

    /// Opens the keybag with its passcode, in every lock state, and loads no key into the ring. The attempt is counted.
    ///
    /// - Parameter passcode: 1 to 1,024 bytes.
    /// - Throws: `wrongPasscode`, `throttled`, `otherDevice`, `attemptsNotRecorded`, `keybagDamaged`, also where the keyring has newer class keys:
    ///   an older copy was put back.
    public func open(passcode: borrowing SecretBytes) throws(DataProtectionError) -> OpenedKeybag {
        let loaded = try file.load()
        try refuseOlder(loaded.copy)
        let opening = try passcodeOpening(passcode, loaded)
        guard let slot = loaded.copy.slot(.passcode) else {
            throw .because(KeybagFailure.keybagDamaged(directory, reason: "it has no passcode slot"))
        }
        let hardware = opening.hardware
        return OpenedKeybag(keybag: self, key: opening.key, slot: slot, opened: loaded.copy, hardware: hardware)
    }

    /// Opens the keybag with its recovery code, with or without its device key, and checks all that is in it.
    ///
    /// No attempt is counted or delayed: nobody can guess 130 random bits, and a user who forgot the passcode must not wait.
    /// - Throws: `noRecoveryCode`, `wrongRecoveryCode`, `keybagDamaged` as above.
    public func open(recoveryCode: borrowing RecoveryCode) throws(DataProtectionError) -> OpenedKeybag {
        let loaded = try file.load()
        guard loaded.copy.uuid == uuid else { throw .because(KeybagFailure.keybagNotFound(directory)) }
        guard let slot = loaded.copy.slot(.recoveryCode) else {
            throw .because(KeybagFailure.noRecoveryCode(directory))
        }
        try DerivationFloor.check(slot.iterations, of: directory)
        try refuseOlder(loaded.copy)
        defer { SecretBytes.scrubStack() }
        let key: KeybagKey
        do throws(KeyError) {
            let kek = try RecoveryKEK(
                code: recoveryCode, salt: slot.salt, iterations: slot.iterations, keybag: loaded.copy.uuid)
            key = try kek.unwrap(slot.wrapped)
        } catch .unwrapFailed {
            throw .because(KeybagFailure.wrongRecoveryCode(keybag: directory))
        } catch {
            throw .cryptography(error)
        }
        _ = try OpenedKeys(loaded, key, directory)
        return OpenedKeybag(keybag: self, key: key, slot: slot, opened: loaded.copy, hardware: nil)
    }

    /// Whether there is a recovery code: a recovery slot in the keybag on disk.
    public var hasRecoveryCode: Bool { (try? file.load().copy.slot(.recoveryCode)) != nil }
}
