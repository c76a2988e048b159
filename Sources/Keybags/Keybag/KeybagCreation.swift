import DurableFiles
import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage

extension Keybag {
    /// Makes a new keybag, as `create(at:passcode:)` of the layer above does.
    package static func create(
        at directory: FilePath, passcode: borrowing SecretBytes, followUp: LockFollowUp
    ) throws(DataProtectionError) -> Keybag {
        try refuseExisting(directory, passcode)
        return try create(
            at: directory, passcode: passcode, iterations: try calibratedIterations(), deviceKey: Locations.deviceKey,
            followUp: followUp
        ) { _ in nil }
    }

    /// The same with a recovery code.
    package static func create(
        at directory: FilePath, passcode: borrowing SecretBytes, recoveryCode: borrowing RecoveryCode,
        followUp: LockFollowUp
    ) throws(DataProtectionError) -> Keybag {
        try refuseExisting(directory, passcode)
        return try create(
            at: directory, passcode: passcode, iterations: try calibratedIterations(), deviceKey: Locations.deviceKey,
            followUp: followUp
        ) { key throws(DataProtectionError) in
            try recoverySlot(recoveryCode, KeybagSlot.leastIterations, key)
        }
    }

    private static func refuseExisting(
        _ directory: FilePath, _ passcode: borrowing SecretBytes
    ) throws(DataProtectionError) {
        try checkPasscode(passcode)
        if OwnDirectory.exists(directory.appending("keybag.0")) {
            throw .because(KeybagFailure.keybagExists(directory))
        }
        // Its files are made by their paths.
        try OwnDirectory.requireUnswappable(directory.directory)
    }

    /// The same with a given number of iterations.
    package static func create(
        at directory: FilePath, passcode: borrowing SecretBytes, iterations: Int, deviceKey devicePath: FilePath,
        followUp: LockFollowUp, recoverySlot: (borrowing KeybagKey) throws(DataProtectionError) -> KeybagSlot?
    ) throws(DataProtectionError) -> Keybag {
        try checkPasscode(passcode)
        let device = try DeviceKeyFile.own(at: devicePath)
        let uuid = try withKeys { () throws(KeyError) in try KeybagUUID.random() }
        let key = try withKeys { () throws(KeyError) in try KeybagKey.random(for: uuid) }
        var slots = [
            try withKeys { () throws(KeyError) in try passcodeSlot(passcode, iterations, device.key, key) }
        ]
        if let slot = try recoverySlot(key) { slots.append(slot) }
        let bytes = try withKeys { () throws(KeyError) in try newKeybag(slots, device, key) }
        try makeDirectory(directory, holding: bytes, of: uuid)
        let keybag = try Keybag(at: directory, followUp: followUp, warn: { _ in })
        KeybagRegistry.note(keybag)
        return keybag
    }

    /// Makes a keybag's directory with all its files; it appears whole or not at all. Removes what a killed process left of the same directory.
    ///
    /// - Parameter isNew: whether nobody has seen this keybag before.
    package static func makeDirectory(
        _ directory: FilePath, holding bytes: [UInt8], of uuid: KeybagUUID, isNew: Bool = true
    ) throws(DataProtectionError) {
        try OwnDirectory.make(directory.directory)
        let unfinished = try UnfinishedDirectory(for: directory)
        do throws(DataProtectionError) {
            try KeybagFile(directory: unfinished.path).create(bytes)
            try AttemptFile(directory: unfinished.path, keybag: uuid).create()
            try TransitionFile(directory: unfinished.path).create(isNew: isNew)
            try RingPlaces(directory: unfinished.path).noteOrigin()
            try AtomicReplace.flushDirectory(unfinished.path)
            try publish(unfinished.path, as: directory)
            try unfinished.makeLast(as: directory)
        } catch {
            unfinished.remove()
            throw error
        }
    }

    /// rename(2) of a directory replaces an empty one only: of two at the same time, one wins and the other is told.
    private static func publish(_ temporary: FilePath, as directory: FilePath) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            try AtomicReplace.rename(temporary, to: directory)
        } catch {
            guard case .system(_, _, let errno) = error,
                [.fileExists, .directoryNotEmpty, .notDirectory].contains(errno)
            else { throw error }
            throw OwnDirectory.exists(directory.appending("keybag.0"))
                ? .because(KeybagFailure.keybagExists(directory)) : .exists(directory)
        }
    }

    package static func checkPasscode(_ passcode: borrowing SecretBytes) throws(DataProtectionError) {
        if passcode.count == 0 { throw .because(KeybagFailure.passcodeUnusable(reason: "it is empty")) }
        if passcode.count > 1024 {
            throw .because(KeybagFailure.passcodeUnusable(reason: "it is longer than 1,024 bytes"))
        }
    }

    /// As many iterations as take about half a second of this thread's work, 600,000 at least: a busy machine gives no weaker keybag.
    ///
    /// - Parameter count: how often the derivation runs for one passcode.
    package static func calibratedIterations(times count: Int = 1) throws(DataProtectionError) -> Int {
        do throws(KeyError) {
            let iterations = try PBKDF2.iterations(taking: .milliseconds(500 / count)) { work throws(KeyError) in
                let start = Clock.ofThread()
                try work()
                return .nanoseconds(Clock.ofThread() - start)
            }
            let bounds = KeybagSlot.leastIterations...KeybagSlot.readableIterations.upperBound
            return min(max(iterations, bounds.lowerBound), bounds.upperBound)
        } catch {
            throw .cryptography(error)
        }
    }

    package static func newKeybag(
        _ slots: [KeybagSlot], _ device: borrowing OwnDeviceKey, _ key: borrowing KeybagKey
    ) throws(KeyError) -> [UInt8] {
        let uuid = key.keybag
        let copy = KeybagCopy(
            sequence: 1, uuid: uuid, deviceID: try device.key.id(for: uuid), devicePath: device.path.bytes,
            slots: slots, entries: try ClassKeyEntry.generation(1, under: key, device.key))
        return try copy.encoded(under: key)
    }

    /// A new slot.
    ///
    /// - Parameter given: its salt; nil: a new one.
    package static func passcodeSlot(
        _ passcode: borrowing SecretBytes, _ iterations: Int, _ device: borrowing DeviceKey, _ key: borrowing KeybagKey,
        salt given: [UInt8]? = nil
    ) throws(KeyError) -> KeybagSlot {
        let salt = if let given { given } else { try Randomness.bytes(32) }
        let kek = try PasscodeKEK(
            passcode: passcode, salt: salt, iterations: iterations, device: device, keybag: key.keybag)
        return KeybagSlot(kind: .passcode, iterations: iterations, salt: salt, wrapped: try kek.wrap(key))
    }
}
