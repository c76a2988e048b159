import DurableFiles
import Glibc
import ProtectionFormat
import SystemPackage

/// The fewest PBKDF2 iterations that a passcode is derived with.
///
/// The number is read from a file that nothing has authenticated yet, so an attacker who can write the file can lower it. A process of
/// the same user that reads ``GuessTagKey`` could then test guesses against the tag of a wrong passcode, cheaply.
package enum DerivationFloor {
    /// The fewest that ``check(_:of:)`` lets through.
    #if PROTECTFS_TESTING
        package static let least = KeybagSlot.readableIterations.lowerBound
    #else
        package static let least = KeybagSlot.leastIterations
    #endif

    /// Call before the derivation.
    ///
    /// - Throws: `weakDerivation` for fewer than 600,000 iterations. The project's own tests may use fewer.
    package static func check(_ iterations: Int, of path: FilePath) throws(DataProtectionError) {
        // Not DEBUG: every debug build of an application sets that.
        #if PROTECTFS_TESTING
            if getenv("PROTECTFS_REFUSES_FEW_ITERATIONS") == nil { return }
        #endif
        guard iterations >= KeybagSlot.leastIterations else {
            throw .because(KeybagFailure.weakDerivation(path, iterations: iterations))
        }
    }
}
