import DurableFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// What the store of secrets needs of a keybag. FORMAT.md §2.15.
extension Keybag {
    /// The name of the directory in which secrets are kept.
    package static let secretsName = "secrets"

    /// The class key that wraps new secrets; nil: the keybag has none before its next unlock.
    ///
    /// - Parameter protectionClass: `complete` or `completeUntilFirstUserAuthentication`.
    /// - Throws: what keeps the keybag from being read.
    package func activeSecretsName(_ protectionClass: ProtectionClass) throws(DataProtectionError) -> ClassKeyName? {
        try current().activeSecretsName(protectionClass)
    }

    /// Lends a class key of secrets.
    ///
    /// - Parameter path: for errors: where the secret is.
    /// - Throws: `locked` if it is not in the ring, `keyLost` if the keybag does not hold it (any more).
    package func withSecretsKey<R: ~Copyable>(
        _ name: ClassKeyName, _ path: FilePath, _ operation: AttemptedOperation,
        _ body: (borrowing ClassKey) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R {
        if let result = try withClassKey(name, body) { return result }
        guard try entry(of: name) != nil else { throw keyLost(name, path) }
        throw lockedError(path, name.protectionClass, operation)
    }
}
