/// The columns whose values are sealed: a value opens only in its table, column and row.
enum SealedColumn: String, Sendable {
    case request = "downloads\0request"
    case resource = "downloads\0resource"
    case failure = "downloads\0failure"
    case result = "downloads\0result"
    case integrityKeyName = "integrityKeys\0name"
    case integrityKey = "integrityKeys\0key"
    case credentialEntry = "credentials\0entry"
    case credentialSecret = "credentials\0secret"
    case credentialIdentity = "credentials\0identity"
    /// No column: the file of exceptions from trust.
    case trustExceptions = "trust-exceptions\0exceptions"

    /// What a value of this column is bound to. FORMAT.md §2.14.
    ///
    /// - Parameter row: the id of the row; of a credential the id of its download, then that of the row.
    func place(row: [UInt8]) -> [UInt8] { Array(rawValue.utf8) + [0] + row }
}
