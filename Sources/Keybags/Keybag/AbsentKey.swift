import DurableFiles
import FoundationEssentials
import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage

extension DataProtectionError {
    /// For a class key that is not here, or cannot be read: what helps against the one does not help against the other.
    package static func locked(
        _ keybag: Keybag, _ path: FilePath, _ protectionClass: ProtectionClass, _ operation: AttemptedOperation
    ) -> DataProtectionError {
        let since = keybag.transition.read().lastChange.map { Date(secondsSince1970: $0) }
        do throws(DataProtectionError) {
            if keybag.ring.key(for: protectionClass)?.isUnreadable == true {
                return .because(KeybagFailure.keysUnreadable(keybag: keybag.directory))
            }
            let state = try keybag.state()
            return .because(
                KeybagFailure.locked(
                    path: path, protectionClass, operation, state: state, since: since))
        } catch {
            return error
        }
    }

    /// For a class key that a file names and the ring does not have. If another process has forgotten it since this one read the keybag, no
    /// unlock brings it back.
    package static func absent(
        _ keybag: Keybag, _ path: FilePath, _ name: ClassKeyName, _ operation: AttemptedOperation
    ) -> DataProtectionError {
        guard keybag.lastKnown.entry(of: name) != nil else { return .keyLost(keybag, path, name) }
        return .locked(keybag, path, name.protectionClass, operation)
    }

    /// For a class key that the keybag does not hold.
    package static func keyLost(_ keybag: Keybag, _ path: FilePath, _ name: ClassKeyName) -> DataProtectionError {
        let newest = keybag.lastKnown.newestGeneration
        return .because(
            KeybagFailure.keyLost(
                path, name.protectionClass, generation: name.generation, isNewer: name.generation > newest))
    }

    /// For a keybag that has fewer generations than the ring, where no rotation was interrupted.
    package static func olderCopy(of keybag: Keybag) -> DataProtectionError {
        .because(KeybagFailure.keybagDamaged(keybag.directory, reason: KeybagFailure.olderCopyReason))
    }
}
