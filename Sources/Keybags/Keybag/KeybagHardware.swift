import DurableFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage
internal import TrustedModule

/// What a passcode opened.
struct PasscodeOpening: ~Copyable {
    let key: KeybagKey
    /// nil: the keybag is not bound to hardware.
    let hardware: HardwareOpening?
}

/// The stretched passcode of a keybag that is bound to hardware: kept while the keybag is open, so that a change can bind it to a new secret.
final class HardwareOpening: Sendable {
    let passcode: StretchedPasscode

    init(_ passcode: consuming StretchedPasscode) { self.passcode = passcode }
}

extension Keybag {
    /// The hardware that takes part in opening the passcode slot; nil: none.
    ///
    /// - Throws: `unsupported` if this version does not know it.
    package func hardwareShare(of copy: KeybagCopy) throws(DataProtectionError) -> HardwareShare? {
        do throws(FormatError) { return try copy.hardwareShare() } catch {
            guard case .unsupported(let what) = error else { return nil }
            throw .unsupported(directory, what: what)
        }
    }

    /// Whether the passcode opens the keybag only with this machine's TPM. The file says so; nobody has authenticated it.
    package var isBoundToHardware: Bool { ((try? hardwareShare(of: lastKnown)) ?? nil) != nil }

    /// Whether a change is going to destroy secrets in the hardware: those that the keybag has, or those that an earlier change has left.
    package var hasHardwareSecrets: Bool {
        isBoundToHardware || OwnDirectory.exists(directory.appending(HardwareNote.name))
    }

    /// Opens the passcode slot with the secret of the hardware. The attempt was begun.
    ///
    /// What is no wrong passcode takes the attempt back. FORMAT.md §2.21.
    func open(
        _ slot: KeybagSlot, with share: HardwareShare, _ passcode: borrowing SecretBytes, _ device: borrowing DeviceKey,
        before: AttemptRecord
    ) throws(DataProtectionError) -> PasscodeOpening {
        defer { SecretBytes.scrubStack() }
        let opening = HardwareOpening(
            try withKeys { () throws(KeyError) in
                try StretchedPasscode(passcode: passcode, salt: slot.salt, iterations: slot.iterations)
            })
        let guess = HardwareGuess(ring, uuid)
        if before.failures > 0, guess.isRepeated(opening.passcode) { throw wrongPasscode(try attempts.takeBack()) }
        let authorization = try withKeys { () throws(KeyError) in
            try opening.passcode.authorization(for: share.id, on: device, keybag: uuid)
        }
        let prefix = try withKeys { () throws(KeyError) in try HardwareShare.labelPrefix(of: uuid) }
        let secret: HardwareSecret
        do throws(HardwareRefusal) {
            secret = try hardware.secret(
                of: share.place, labelsWithPrefix: prefix, authorization: authorization)
        } catch {
            switch error {
            case .wrongPasscode:
                guess.note(opening.passcode)
                throw wrongPasscode(try attempts.failed())
            case .problem(let problem): throw try tookBack(problem, slot)
            }
        }
        guard let key = try unwrapped(slot, opening.passcode, with: secret, device) else {
            throw try tookBack(.altered, slot)
        }
        try attempts.succeeded()
        guess.forget()
        return PasscodeOpening(key: key, hardware: opening)
    }

    /// - Returns: nil if the slot does not open.
    private func unwrapped(
        _ slot: KeybagSlot, _ passcode: borrowing StretchedPasscode, with secret: borrowing HardwareSecret,
        _ device: borrowing DeviceKey
    ) throws(DataProtectionError) -> KeybagKey? {
        do throws(KeyError) {
            let kek = try PasscodeKEK(
                passcode: passcode.passcode(with: secret, keybag: uuid), salt: slot.salt, iterations: slot.iterations,
                device: device, keybag: uuid)
            return try kek.unwrap(slot.wrapped)
        } catch .unwrapFailed {
            return nil
        } catch {
            throw .cryptography(error)
        }
    }

    /// Takes the attempt back, which tested no passcode or a right one.
    ///
    /// - Returns: what to throw.
    private func tookBack(
        _ problem: HardwareProblem, _ slot: KeybagSlot
    ) throws(DataProtectionError) -> DataProtectionError {
        try attempts.takeBack()
        // Another process may have changed the passcode since the keybag was read.
        if let now = try? file.load().copy, now.slot(.passcode) != slot { return .busy(directory) }
        return failure(problem)
    }

    package func failure(_ problem: HardwareProblem) -> DataProtectionError {
        .because(KeybagFailure.hardware(keybag: directory, problem))
    }
}

extension HardwareShare {
    var place: TrustedModule.Index { TrustedModule.Index(handle: index, root: root, name: name) }
}

extension Keybag {
    /// The password of the owner of a TPM, for a change that puts secrets there or destroys them. The keybag need not exist.
    package struct HardwareOwner {
        private let hardware: any HardwareSecretSource
        private let root: [UInt8]?

        /// - Parameter keybag: nil: one that is going to be made.
        package init(of keybag: Keybag?) {
            hardware = keybag?.hardware ?? TrustedModule.machine
            root = keybag.flatMap { try? $0.hardwareShare(of: $0.lastKnown) }?.root
        }

        /// Whether the TPM has such a password, and giving it would help. It is not known yet.
        package var isAsked: Bool { (try? hardware.asksOwner(root: root)) == true }

        /// Tries it, and uses it until the process ends if it is right. Wrong ones count nowhere.
        ///
        /// - Parameter password: of more than 64 bytes none is right.
        /// - Returns: whether it is right; nil if the TPM does not say so.
        package func accepts(_ password: consuming SecretBytes) -> Bool? {
            try? hardware.accepts(ownersPassword: password, root: root)
        }
    }

    /// What this machine's TPM says of itself, if a keybag can be bound to it now.
    ///
    /// - Parameter directory: of the keybag, for the error.
    /// - Throws: `hardware`.
    package static func usableHardware(
        for directory: FilePath, _ hardware: any HardwareSecretSource = TrustedModule.machine
    ) throws(DataProtectionError) -> HardwareFacts {
        func failure(_ problem: HardwareProblem) -> DataProtectionError {
            .because(KeybagFailure.hardware(keybag: directory, problem))
        }
        let facts: HardwareFacts
        do throws(HardwareRefusal) { facts = try hardware.facts() } catch {
            guard case .problem(let problem) = error else { throw failure(.failed(command: "GetCapability", code: 0)) }
            throw failure(problem)
        }
        if facts.ownerHasPassword, !hardware.knowsOwner { throw failure(.ownerHasPassword) }
        if facts.isLockedOut { throw failure(.lockedOut(oneTryAfter: facts.oneTryAfter)) }
        return facts
    }
}
