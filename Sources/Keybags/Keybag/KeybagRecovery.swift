import DurableFiles
import ProtectionFormat
public import ProtectionKeys
import SystemPackage

extension OpenedKeybag {
    /// Makes `code` the keybag's recovery code; one that there was before opens it no more.
    ///
    /// Exports and copies of the keybag that were made before open with the code of their time.
    /// - Parameter code: new, and shown to the user already: it cannot be had a second time.
    /// - Throws: `keybagUnconfirmed`; `busy`, `system`: nothing has changed then.
    public consuming func setRecoveryCode(_ code: borrowing RecoveryCode) throws(DataProtectionError) {
        try setRecoveryCode(code, iterations: KeybagSlot.leastIterations)
    }

    /// The same with a given number of iterations: tests use few.
    package consuming func setRecoveryCode(
        _ code: borrowing RecoveryCode, iterations: Int
    ) throws(DataProtectionError) {
        let slot = try Keybag.recoverySlot(code, iterations, key)
        try renewingHardware { bound throws(DataProtectionError) in
            try commit { copy in
                copy.replaceSlots([slot])
                if let bound { copy.bind(bound) }
            }
        }
    }

    /// Sets a new passcode and a new recovery code, for a keybag that was opened by its recovery code: the old passcode and
    /// the old code open it no more. No file is touched.
    ///
    /// If the device key is another one, or there is none, this machine's own takes its place (and is made if need be).
    /// Wrong passcodes are forgotten, and nothing is unlocked.
    /// - Parameters:
    ///   - passcode: the new one, 1 to 1,024 bytes.
    ///   - recoveryCode: new, and shown to the user already.
    /// - Throws: `keybagUnconfirmed`: after a power cut either code may be the one that opens; `passcodeUnusable`,
    ///   `deviceKeyUnusable`, `attemptsNotRecorded`, `busy`, `system`: the old code opens then.
    public consuming func recover(
        passcode: borrowing SecretBytes, recoveryCode: borrowing RecoveryCode
    ) throws(DataProtectionError) {
        let iterations = try Keybag.calibratedIterations()
        try recover(passcode: passcode, iterations, recoveryCode: recoveryCode, KeybagSlot.leastIterations)
    }

    /// The same with given numbers of iterations: tests use few.
    package consuming func recover(
        passcode: borrowing SecretBytes, _ iterations: Int, recoveryCode: borrowing RecoveryCode,
        _ recoveryIterations: Int
    ) throws(DataProtectionError) {
        try Keybag.checkPasscode(passcode)
        let own = try keybag.deviceKeys.own(for: try keybag.file.load().copy)
        let passcodeSlot = try withKeys { () throws(KeyError) in
            try Keybag.passcodeSlot(passcode, iterations, own.key, key)
        }
        let slots = [passcodeSlot, try Keybag.recoverySlot(recoveryCode, recoveryIterations, key)]
        // Before the keybag: what fails here leaves everything as it was.
        try keybag.attempts.succeeded()
        try releasingHardware { () throws(DataProtectionError) in
            try commit { copy throws(KeyError) in
                copy.replaceSlots(slots)
                copy.removeHardwareShares()
                try copy.bind(to: own.key, at: own.path, key)
            }
        }
        KeybagRegistry.note(keybag)
    }
}

extension Keybag {
    /// A new recovery slot with a new salt.
    package static func recoverySlot(
        _ code: borrowing RecoveryCode, _ iterations: Int, _ key: borrowing KeybagKey
    ) throws(DataProtectionError) -> KeybagSlot {
        defer { SecretBytes.scrubStack() }
        return try withKeys { () throws(KeyError) in
            let salt = try Randomness.bytes(32)
            let kek = try RecoveryKEK(code: code, salt: salt, iterations: iterations, keybag: key.keybag)
            return KeybagSlot(kind: .recoveryCode, iterations: iterations, salt: salt, wrapped: try kek.wrap(key))
        }
    }
}

extension KeybagCopy {
    /// Puts new slots in the places of those of the same kinds.
    package mutating func replaceSlots(_ new: [KeybagSlot]) {
        slots = slots.filter { old in !new.contains { $0.kind == old.kind } } + new
    }

    /// Makes everything anew that hangs on the device key: id and path, class D's second wrap, class B's second MAC. First-unlock secrets
    /// of another device key go.
    package mutating func bind(
        to device: borrowing DeviceKey, at path: FilePath, _ key: borrowing KeybagKey
    ) throws(KeyError) {
        let id = try device.id(for: uuid)
        if id != deviceID { removeFirstUnlockShares() }
        deviceID = id
        devicePath = path.bytes
        for index in entries.indices {
            guard let name = name(of: entries[index]), name.kind == .files else { continue }
            if name.protectionClass == .none {
                entries[index].wrappedByDevice = try device.wrap(try key.unwrap(entries[index].wrapped, as: name))
            }
            if entries[index].state == .active, let half = entries[index].publicHalf {
                let message = ClassKeyEntry.PublicHalf.message(name: name, key: half.key)
                entries[index].publicHalf = ClassKeyEntry.PublicHalf(
                    key: half.key, macUnderC: half.macUnderC,
                    macUnderDevice: try device.bPublicMACKey(for: uuid).tag(of: message))
            }
        }
    }
}
