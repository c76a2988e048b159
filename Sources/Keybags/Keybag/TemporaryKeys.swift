import DurableFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// Keybags whose class keys live in one process alone, for unit tests.
package struct TemporaryKeys {
    private let keybag: Keybag

    package init(of keybag: Keybag) { self.keybag = keybag }

    /// Makes such a keybag. It is locked as before the first unlock.
    ///
    /// Its files are in `directory`, the device key beside it in `device-key`. No passcode opens it, and no registry knows of it.
    /// Only the returned object uses the process ring: the same directory opened again is an ordinary keybag that stays locked.
    /// - Parameter directory: where nothing is yet; absolute.
    package static func makeKeybag(
        in directory: FilePath, followUp: LockFollowUp, warn: @escaping @Sendable (ProtectionWarning) -> Void
    ) throws(DataProtectionError) -> Keybag {
        let device = try DeviceKeyFile.own(at: directory.removingLastComponent().appending("device-key"))
        let uuid = try withKeys { () throws(KeyError) in try KeybagUUID.random() }
        let ring = ProcessRing(try withKeys { () throws(KeyError) in try KeybagKey.random(for: uuid) })
        let bytes = try withKeys { () throws(KeyError) in
            try Keybag.newKeybag([try unopenableSlot()], device, ring.keybagKey)
        }
        try Keybag.makeDirectory(directory, holding: bytes, of: uuid)
        return try Keybag(at: directory, ring: ring, followUp: followUp, warn: warn)
    }

    /// The format asks for one slot at least. What this one says to wrap is random, so no passcode opens it.
    private static func unopenableSlot() throws(KeyError) -> KeybagSlot {
        KeybagSlot(
            kind: .passcode, iterations: KeybagSlot.leastIterations, salt: try Randomness.bytes(32),
            wrapped: WrappedKey(bytes: try Randomness.bytes(40)))
    }

    /// Loads all class keys. Nothing is derived: its ring has the keybag key.
    ///
    /// - Throws: `passcodeUnusable` for every other keybag; `lockedMeanwhile`, `keybagNotFound`, `keybagDamaged`.
    package func load(forSeconds seconds: UInt32? = nil) throws(DataProtectionError) {
        guard let process = keybag.ring.process else {
            throw .because(KeybagFailure.passcodeUnusable(reason: "only a temporary keybag is unlocked without one"))
        }
        while true {
            let counter = try keybag.transition.readStrictly().counter
            let loaded = try keybag.file.load()
            let keys = try OpenedKeys(loaded, process.keybagKey, keybag.directory)
            guard try keybag.load(keys, seconds: seconds, ifCounterIs: counter) else { continue }  // rotated in between
            keybag.cache(loaded.copy)
            return keybag.followUp.perform(in: keybag.directory, warn: keybag.warn)
        }
    }

    /// Evicts all class keys, whatever has become of the keybag's directory.
    package func evict() {
        let ring = keybag.ring
        for slot in [ring.unlocked, ring.firstUnlock, ring.guessTag] { ring.process?.evict(slot.key) }
    }

    /// No passcode belongs to a temporary keybag: to try one would cost a derivation, and leave a key in the kernel keyring.
    static func refusePasscode(of keybag: Keybag) throws(DataProtectionError) {
        if keybag.ring.process != nil {
            throw .because(
                KeybagFailure.passcodeUnusable(
                    reason: "a temporary keybag has none; unlock it with TemporaryKeybag.unlock()"))
        }
    }
}
