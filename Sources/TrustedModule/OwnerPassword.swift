internal import ProtectionKeys
import Synchronization

/// The password of the owner hierarchy, without which nobody defines or destroys an index. Most TPMs have none.
///
/// It is here once a TPM has accepted it, until the process ends.
package final class OwnerPassword: Sendable {
    /// Bytes, at most: the longest digest of a TPM.
    package static let maximumLength = 64

    private let password = Mutex<SecretBytes?>(nil)

    /// Of the machine's TPM.
    static let ofMachine = OwnerPassword()

    var isKnown: Bool { password.withLock { $0 != nil } }

    func keep(_ accepted: consuming SecretBytes) {
        var accepted: SecretBytes? = accepted
        password.withLock { $0 = accepted.take() }
    }

    /// - Returns: nil if it is not known.
    func lend<R>(_ body: (borrowing SecretBytes) -> R) -> R? {
        password.withLock { password in
            switch password {
            case .some(let known): body(known)
            case nil: nil
            }
        }
    }
}
