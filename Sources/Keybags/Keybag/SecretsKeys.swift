import DurableFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// What the store of secrets needs of a keybag. FORMAT.md §2.15.
package struct SecretsKeys: Sendable {
    /// The name of the directory in which secrets are kept.
    package static let directoryName = "secrets"

    private let keybag: Keybag

    package init(of keybag: Keybag) { self.keybag = keybag }

    /// The class key that wraps new secrets; nil: the keybag has none before its next unlock.
    ///
    /// - Parameter protectionClass: `complete` or `completeUntilFirstUserAuthentication`.
    /// - Throws: what keeps the keybag from being read.
    package func activeName(_ protectionClass: ProtectionClass) throws(DataProtectionError) -> ClassKeyName? {
        try keybag.current().activeSecretsName(protectionClass)
    }

    /// Lends a class key of secrets.
    ///
    /// - Parameter path: for errors: where the secret is.
    /// - Throws: `locked` if it is not in the ring, `keyLost` if the keybag does not hold it (any more).
    package func withKey<R: ~Copyable>(
        _ name: ClassKeyName, _ path: FilePath, _ operation: AttemptedOperation,
        _ body: (borrowing ClassKey) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R {
        if let result = try keybag.withClassKey(name, body) { return result }
        throw .absent(keybag, path, name, operation)
    }
}
