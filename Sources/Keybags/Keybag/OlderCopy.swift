import DurableFiles
import KernelKeyring
import ProtectionFormat
import ProtectionKeys

/// A keybag that is older than the class keys in the keyring: somebody has put a copy of before a rotation back.
extension Keybag {
    /// Nobody is there who could be told: newer class keys C than those of the keybag stay in the ring. An unlock with the passcode replaces them,
    /// because anybody with the user's id can plant some.
    ///
    /// - Throws: `keybagDamaged` if the ring has a generation of C that is newer, and not of a rotation that was interrupted.
    func refuseOlder(_ keys: borrowing OpenedKeys) throws(DataProtectionError) {
        let own = keys.firstUnlock.withUnsafeBytes { RingPayload.newestGeneration($0) }
        guard try newerInRing(than: own) != nil else { return }
        throw .olderCopy(of: self)
    }

    /// Refuses an older copy of the keybag: nothing is to be wrapped, or opened in order to be changed, under what a rotation has retired. Where
    /// the ring cannot be read, as in containers, nobody can tell.
    ///
    /// - Throws: `keybagDamaged`, as above.
    package func refuseOlder(_ copy: KeybagCopy) throws(DataProtectionError) {
        guard let inRing = try? newerInRing(than: copy.newestGeneration),
            // It may have been rotated since it was read.
            try inRing > reload().newestGeneration
        else { return }
        throw .olderCopy(of: self)
    }

    /// Whether the ring has newer class keys than the keybag: an older copy was put back, or somebody has planted a key.
    package var isOlderThanRing: Bool {
        do throws(DataProtectionError) { try refuseOlder(current()) } catch {
            guard case .because(KeybagFailure.keybagDamaged(_, KeybagFailure.olderCopyReason)) = error else {
                return false
            }
            return true
        }
        return false
    }

    /// The newest generation in the ring, if it is newer than this one, and not of a rotation that was interrupted.
    private func newerInRing(than own: UInt32?) throws(DataProtectionError) -> UInt32? {
        func look(_ own: UInt32) throws(DataProtectionError) -> UInt32? {
            var serial: KeySerial?
            guard let payload = try RingKeys.payload(of: ring.firstUnlock, serial: &serial),
                let inRing = payload.withUnsafeBytes({ RingPayload.newestGeneration($0) }),
                inRing > own, ring.unfinishedRotation != inRing
            else { return nil }
            return inRing
        }
        // Another unlock may end an interrupted rotation between the look at the keys and that at its mark.
        guard let own, try look(own) != nil else { return nil }
        return try look(own)
    }
}
