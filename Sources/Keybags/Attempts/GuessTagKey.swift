import DurableFiles
import KernelKeyring
import ProtectionKeys
import SystemPackage

/// The key of the tag that `attempts` keeps of a wrong passcode: 32 random bytes in the kernel keyring alone. FORMAT.md §2.5.
///
/// A tag without such a key could be tested for the price of the derivation that gave it. A file that nothing has authenticated sets
/// that price. The disk does not hold this key, so a tag on the disk cannot be tested at any price.
package struct GuessTagKey: Sendable {
    private let key: RingSlot

    package init(_ ring: RingKeys) { key = ring.guessTag }

    /// The tag to store for a wrong passcode.
    ///
    /// Makes the key if there is none, for example after a boot. Tags that were stored before match nothing then. Call within the
    /// lock of `attempts`, so that two processes do not make two keys.
    /// - Parameter guess: what the derivation gave, FORMAT.md §1.1 row 7.
    /// - Returns: nil if the keyring takes no key. Without a tag the same wrong passcode counts each time.
    package func tag(of guess: UInt16) -> UInt16? {
        do {
            var serial: KeySerial?
            if let secret = try RingKeys.payload(of: key, serial: &serial), secret.count == 32 {
                return try Self.tag(of: guess, under: MACKey(secret: secret))
            }
            let secret = try SecretBytes(randomByteCount: 32)
            try key.write { () throws(Errno) in
                _ = try secret.withUnsafeBytes { payload throws(Errno) in try key.load(payload) }
            }
            return try Self.tag(of: guess, under: MACKey(secret: secret))
        } catch {
            return nil
        }
    }

    /// Removes the key, when no tag is stored any more. A key that stays costs some of the user's quota, and opens nothing.
    package func forget() {
        guard (try? key.find()) != nil else { return }
        try? key.write { () throws(Errno) in try key.evict() }
    }

    private static func tag(of guess: UInt16, under key: borrowing MACKey) throws(KeyError) -> UInt16 {
        let tag = try key.tag(of: [UInt8(truncatingIfNeeded: guess), UInt8(guess >> 8)])
        return UInt16(tag[0]) | UInt16(tag[1]) << 8
    }
}
