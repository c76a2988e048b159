import DurableFiles
import KernelKeyring
import ProtectionKeys
import SystemPackage

/// The last wrong passcode of a keybag that is bound to hardware, as a mark in the kernel keyring alone. FORMAT.md §2.5, §2.21.
///
/// A program that tries a stale passcode again and again must not use up the tries of the hardware, so the same wrong passcode is recognized before
/// the hardware is asked. Nothing of it is on a disk. The mark has 32 bytes, so no right passcode is taken for a wrong one.
struct HardwareGuess {
    private let slot: RingSlot
    private let keybag: KeybagUUID

    init(_ ring: RingKeys, _ keybag: KeybagUUID) {
        slot = ring.hardwareGuess
        self.keybag = keybag
    }

    private static let keyLength = 32

    /// Whether this was the last wrong passcode. Where the keyring cannot be read, it was not.
    func isRepeated(_ passcode: borrowing StretchedPasscode) -> Bool {
        do {
            var serial: KeySerial?
            guard let payload = try RingKeys.payload(of: slot, serial: &serial), payload.count == 2 * Self.keyLength
            else { return false }
            let mark = try passcode.mark(under: payload.slice(0..<Self.keyLength), keybag: keybag)
            return mark.isEqual(to: payload.slice(Self.keyLength..<2 * Self.keyLength))
        } catch {
            return false
        }
    }

    /// Notes a wrong passcode. If the keyring takes no key, the same one counts again.
    func note(_ passcode: borrowing StretchedPasscode) {
        do {
            let key = try SecretBytes(randomByteCount: Self.keyLength)
            let mark = try passcode.mark(under: key, keybag: keybag)
            var payload = SecretBytes(zeroed: 2 * Self.keyLength)
            payload.withUnsafeMutableBytes { payload in
                key.withUnsafeBytes { payload.copyMemory(from: $0) }
                mark.withUnsafeBytes {
                    UnsafeMutableRawBufferPointer(rebasing: payload[Self.keyLength...]).copyMemory(from: $0)
                }
            }
            try slot.write { () throws(Errno) in
                try payload.withUnsafeBytes { payload throws(Errno) in try slot.load(payload) }
            }
        } catch {}
    }

    /// Removes the mark, once the passcode was right.
    func forget() {
        guard (try? slot.find()) != nil else { return }
        try? slot.write { () throws(Errno) in try slot.evict() }
    }
}
