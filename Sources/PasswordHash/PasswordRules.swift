import ProtectionKeys

/// Which passwords are taken: the same ones on every way through this module.
enum PasswordRules {
    /// In bytes. Enough for any sentence; a longer one is refused and never cut.
    static let maximumLength = 1024

    /// - Throws: ``PasswordError/unusablePassword(_:)``.
    static func check(_ password: borrowing SecretBytes) throws(PasswordError) {
        guard password.count > 0 else { throw .unusablePassword(.empty) }
        guard password.count <= maximumLength else {
            throw .unusablePassword(.tooLong(count: password.count, limit: maximumLength))
        }
        guard !password.withUnsafeBytes({ $0.contains(0) }) else { throw .unusablePassword(.hasZeroByte) }
    }
}
