import DurableFiles
import FoundationEssentials
import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage

extension Keybag {
    /// The error for a class key that is not here, or cannot be read: what helps against the one does not help against the other.
    package func lockedError(
        _ path: FilePath, _ protectionClass: ProtectionClass, _ operation: AttemptedOperation
    ) -> DataProtectionError {
        let since = transition.read().lastChange.map { Date(secondsSince1970: $0) }
        do throws(DataProtectionError) {
            if ring.key(for: protectionClass)?.isUnreadable == true {
                return .because(KeybagFailure.keysUnreadable(keybag: directory))
            }
            let state = try state()
            return .because(
                KeybagFailure.locked(
                    path: path, protectionClass, operation, state: state, since: since))
        } catch {
            return error
        }
    }

    /// The error for a class key that the keybag does not hold.
    package func keyLost(_ name: ClassKeyName, _ path: FilePath) -> DataProtectionError {
        let newest = lastKnown.usedEntries.map(\.generation).max() ?? 0
        return .because(
            KeybagFailure.keyLost(
                path, name.protectionClass, generation: name.generation, isNewer: name.generation > newest))
    }
}
