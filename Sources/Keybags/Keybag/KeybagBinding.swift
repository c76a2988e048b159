import DurableFiles
import ProtectionFormat
package import ProtectionKeys
import SystemPackage
internal import TrustedModule

/// Whether hardware takes part in opening the passcode slot that a change writes.
package enum HardwareBinding: Sendable {
    case bound
    case unbound
}

/// A new passcode slot.
package struct NewPasscodeSlot {
    let slot: KeybagSlot
    /// nil: the passcode alone opens it.
    let share: HardwareShare?
}

extension KeybagCopy {
    /// Takes a new passcode slot, and the share that goes with it.
    mutating func bind(_ new: NewPasscodeSlot) {
        replaceSlots([new.slot])
        removeHardwareShares()
        if let share = new.share { entries.append(share.entry) }
    }
}

/// Changes of a keybag that is bound to hardware, or is to be. FORMAT.md §2.21.
///
/// Each makes a new secret in the hardware, then replaces the keybag, then destroys the previous secret. A note is on the disk before the first step:
/// after a kill at any moment the old or the new keybag opens, and the next unlock destroys the secret that this keybag does not name.
extension OpenedKeybag {
    /// Whether hardware took part in opening it.
    package var binding: HardwareBinding { hardware == nil ? .unbound : .bound }

    /// Sets the passcode, and binds the keybag to this machine's TPM or releases it. The class keys stay: copies of the keybag from before the
    /// binding open as before.
    ///
    /// - Parameter passcode: the one that opened the keybag, or a new one. 1 to 1,024 bytes.
    /// - Throws: `hardware`; `busy`, `system`: nothing has changed then; `keybagUnconfirmed`.
    package consuming func setPasscode(
        _ passcode: borrowing SecretBytes, iterations: Int? = nil, _ binding: HardwareBinding
    ) throws(DataProtectionError) {
        try withNewPasscodeSlot(passcode, iterations, binding, under: key) { new throws(DataProtectionError) in
            try replace { copy throws(DataProtectionError) in
                copy.bind(new)
                guard copy.entries.count <= KeybagCopy.maximumEntryCount else {
                    throw .because(KeybagFailure.tooManyGenerations(keybag.directory))
                }
                return try withKeys { () throws(KeyError) in try copy.encoded(under: key) }
            }
        }
    }

    /// Makes a passcode slot with a new salt, and lets `store` replace the keybag.
    ///
    /// - Parameters:
    ///   - iterations: nil: as many as this machine can afford.
    ///   - key: the keybag key that the slot wraps.
    borrowing func withNewPasscodeSlot(
        _ passcode: borrowing SecretBytes, _ iterations: Int?, _ binding: HardwareBinding,
        under key: borrowing KeybagKey, _ store: (NewPasscodeSlot) throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) {
        let device = try deviceKey()
        switch binding {
        case .unbound:
            let cost = if let iterations { iterations } else { try Keybag.calibratedIterations() }
            let slot = try withKeys { () throws(KeyError) in try Keybag.passcodeSlot(passcode, cost, device, key) }
            try releasingHardware { () throws(DataProtectionError) in
                try store(NewPasscodeSlot(slot: slot, share: nil))
            }
        case .bound:
            // Once for the hardware, once for the slot.
            let cost = if let iterations { iterations } else { try Keybag.calibratedIterations(times: 2) }
            let stretched = try withKeys { () throws(KeyError) in
                try StretchedPasscode(passcode: passcode, salt: Randomness.bytes(32), iterations: cost)
            }
            try bind(stretched, under: key, device, store)
        }
    }

    /// Gives a keybag that is bound a new secret, under the passcode that opened it. Earlier copies of the keybag do not open with it any more.
    ///
    /// - Parameter store: replaces the keybag; gets nil if it is not bound.
    borrowing func renewingHardware(
        _ store: (NewPasscodeSlot?) throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) {
        guard let hardware else { return try store(nil) }
        try bind(hardware.passcode, under: key, try deviceKey(), store)
    }

    private borrowing func bind(
        _ passcode: borrowing StretchedPasscode, under key: borrowing KeybagKey, _ device: borrowing DeviceKey,
        _ store: (NewPasscodeSlot) throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) {
        var note = try HardwareNote(in: keybag.directory)
        do throws(DataProtectionError) {
            try store(newSlot(passcode, under: key, device, &note))
        } catch {
            // Which keybag is in force after a power cut is not known: both secrets stay until an unlock tells.
            if case .because(KeybagFailure.keybagUnconfirmed) = error { throw error }
            keybag.settle(note)
            throw error
        }
        keybag.settle(note)
    }

    /// Puts a new secret into the hardware, and reads it again.
    private borrowing func newSlot(
        _ passcode: borrowing StretchedPasscode, under key: borrowing KeybagKey, _ device: borrowing DeviceKey,
        _ note: inout HardwareNote
    ) throws(DataProtectionError) -> NewPasscodeSlot {
        defer { SecretBytes.scrubStack() }
        let (uuid, copy) = (keybag.uuid, try copyNow())
        let id = try withKeys { () throws(KeyError) in try Randomness.bytes(16) }
        let label = try withKeys { () throws(KeyError) in try HardwareShare.label(of: id, in: uuid) }
        let authorization = try withKeys { () throws(KeyError) in
            try passcode.authorization(for: id, on: device, keybag: uuid)
        }
        let secret = try withKeys { () throws(KeyError) in try HardwareSecret.random() }
        let root = try keybag.hardwareShare(of: copy)?.root
        let place: TrustedModule.Index
        let handle = try keybag.withHardware { hardware throws(HardwareRefusal) in try hardware.freeHandle() }
        try note.add([HardwareNote.Line(handle: handle, label: label)] + copy.hardwareLines())
        place = try keybag.withHardware { hardware throws(HardwareRefusal) in
            let place = try hardware.put(
                secret, at: handle, label: label, authorization: authorization, root: root)
            // Nothing depends on it before it was read once.
            let prefix = Array(label.prefix(16))
            let stored = try hardware.secret(of: place, labelsWithPrefix: prefix, authorization: authorization)
            guard stored.isEqual(to: secret) else { throw .problem(.failed(command: "NV_Read", code: 0)) }
            return place
        }
        return try withKeys { () throws(KeyError) in
            let slot = try Keybag.passcodeSlot(
                passcode.passcode(with: secret, keybag: uuid), passcode.iterations, device, key, salt: passcode.salt)
            let share = HardwareShare(
                number: copy.nextHardwareNumber, id: id, wrapped: try key.wrap(secret), index: place.handle,
                root: place.root, name: place.name, salt: passcode.salt)
            return NewPasscodeSlot(slot: slot, share: share)
        }
    }

    /// Lets `store` replace the keybag by one that is not bound, and destroys the secret that it was bound to, or that an earlier change has left. That
    /// hardware is away is a warning.
    borrowing func releasingHardware(
        _ store: () throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) {
        let copy = try copyNow()
        let lines = try copy.hardwareLines()
        guard !lines.isEmpty || keybag.hasHardwareSecrets else { return try store() }
        let root = try? keybag.hardwareShare(of: copy)?.root
        var note = try HardwareNote(in: keybag.directory)
        try note.add(lines)
        do throws(DataProtectionError) { try store() } catch {
            if case .because(KeybagFailure.keybagUnconfirmed) = error { throw error }
            keybag.settle(note, root: root)
            throw error
        }
        keybag.settle(note, root: root)
    }
}

extension Keybag {
    /// Runs an operation of the hardware.
    ///
    /// - Throws: `hardware`.
    func withHardware<R>(
        _ body: (any HardwareSecretSource) throws(HardwareRefusal) -> R
    ) throws(DataProtectionError) -> R {
        do throws(HardwareRefusal) { return try body(hardware) } catch {
            switch error {
            case .problem(let problem): throw failure(problem)
            // Of a value that was just set.
            case .wrongPasscode: throw failure(.failed(command: "NV_Read", code: 0x98E))
            }
        }
    }

    /// Destroys what a change has left in the hardware that was killed. To be called when the keybag has opened.
    func settleHardware() {
        do throws(DataProtectionError) {
            guard let note = try HardwareNote(leftIn: directory) else { return }
            settle(note)
        } catch { warn(.hardwareSecretLeft(directory, error)) }
    }

    /// Destroys the secrets of the note that the keybag in force does not name, and removes the note. What fails is a warning: the next unlock
    /// tries again.
    ///
    /// - Parameter root: what the hardware must be, if the keybag in force does not say it.
    func settle(_ note: consuming HardwareNote, root: [UInt8]? = nil) {
        do throws(DataProtectionError) {
            let loaded = try file.load()
            // An older copy beside it may need what it names.
            guard !loaded.needsRepair else { return }
            let share = try hardwareShare(of: loaded.copy)
            let kept = try withKeys { () throws(KeyError) in
                try share.map { share throws(KeyError) in try HardwareShare.label(of: share.id, in: uuid) }
            }
            // It must be this one that is there after a power cut too.
            for name in KeybagFile.names { try AtomicReplace.flush(directory.appending(name)) }
            try AtomicReplace.flushDirectory(directory)
            // Anybody can have written into the note: secrets of other keybags are none of our business.
            let prefix = try withKeys { () throws(KeyError) in try HardwareShare.labelPrefix(of: uuid) }
            for line in note.lines where line.label != kept && line.label.starts(with: prefix) {
                try withHardware { hardware throws(HardwareRefusal) in
                    try hardware.destroy(line.handle, label: line.label, root: share?.root ?? root)
                }
            }
            try note.remove()
        } catch { warn(.hardwareSecretLeft(directory, error)) }
    }

    /// What the TPM says of itself, for people. No try is spent.
    ///
    /// - Throws: `hardware`, also if the keybag is bound and its secret is not there.
    package func hardwareFacts() throws(DataProtectionError) -> HardwareFacts {
        if let share = (try? hardwareShare(of: lastKnown)) ?? nil {
            let prefix = try withKeys { () throws(KeyError) in try HardwareShare.labelPrefix(of: uuid) }
            try withHardware { hardware throws(HardwareRefusal) in
                try hardware.requirePresent(share.place, labelsWithPrefix: prefix)
            }
        }
        return try withHardware { hardware throws(HardwareRefusal) in try hardware.facts() }
    }
}
