import DurableFiles
import KernelKeyring
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// Asks the ring whether class key D is that of the last unlock. FORMAT.md §2.5.
struct ClassDConfirmation {
    let keybag: Keybag

    /// The device key, which opens class key D, lies on the same disk as the keybag: an attacker who can write there can replace both. But since the
    /// first unlock the ring has the id of class key D, and the unlock has authenticated that id.
    /// - Parameter entry: of the key. It is read anew if it is not the one that the ring confirms.
    /// - Returns: false if the ring says nothing: before the first unlock, if it cannot be asked, or if an earlier version loaded the keys; nil if the
    ///   keybag has no such key any more.
    /// - Throws: `keybagDamaged` if the ring has other ids; `keybagUnsafe` if it has the keys of a keybag whose place this one has.
    func perform(_ name: ClassKeyName, _ entry: inout ClassKeyEntry) throws(DataProtectionError) -> Bool? {
        for isLast in [false, true] {
            let ids = try idsInRing(name.protectionClass)
            if ids.isEmpty {
                try KeybagRegistry.refuseReplaced(keybag)
                return false
            }
            if ids[name.generation] == entry.id { return true }
            if isLast { break }
            // Another process may have rotated the keybag since this one read it. The ring is changed before the keybag, or after it.
            guard let now = try keybag.reload().entry(of: name) else { return nil }
            entry = now
        }
        throw .because(
            KeybagFailure.keybagDamaged(keybag.directory, reason: "its class key D is not that of the last unlock"))
    }

    private func idsInRing(_ protectionClass: ProtectionClass) throws(DataProtectionError) -> [UInt32: [UInt8]] {
        var serial: KeySerial?
        do throws(DataProtectionError) {
            guard let payload = try RingKeys.payload(of: keybag.ring.firstUnlock, serial: &serial) else { return [:] }
            return payload.withUnsafeBytes { RingPayload.ids(of: protectionClass, in: $0) }
        } catch .because(KeybagFailure.keyringUnavailable(let errno))
            where errno == .notPermitted || errno == .noFunction
        {
            return [:]  // as the seccomp profiles of containers refuse it
        }
    }
}
