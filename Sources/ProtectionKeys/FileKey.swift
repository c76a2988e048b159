/// The random key of one protected file. What is sealed is sealed under keys derived from it.
public struct FileKey: ~Copyable, Sendable {
    let secret: SecretBytes

    init(secret: consuming SecretBytes) { self.secret = secret }

    /// A new key: 32 random bytes.
    public static func random() throws(KeyError) -> FileKey {
        FileKey(secret: try SecretBytes(randomByteCount: 32))
    }

    /// The 32-byte key that seals chunks. FORMAT.md §1.1 row 12.
    public borrowing func chunkKey(of file: FileID) throws(KeyError) -> SecretBytes {
        try secret.derive(.chunkKey, file.bytes)
    }

    /// The 32-byte key that seals head records and inline files. FORMAT.md §1.1 row 13.
    public borrowing func headKey(of file: FileID) throws(KeyError) -> SecretBytes {
        try secret.derive(.headKey, file.bytes)
    }

    /// The 32-byte key that seals pages of mappings which come when the class key has gone. It opens nothing else of the file, and the head
    /// key cannot be had from it. FORMAT.md §1.1 row 23.
    ///
    /// - Parameters:
    ///   - headKey: of the file.
    ///   - salt: 16 random bytes, stored beside what is sealed.
    public static func latePagesKey(
        of file: FileID, headKey: borrowing SecretBytes, salt: [UInt8]
    ) throws(KeyError) -> SecretBytes {
        try headKey.derive(.latePages, file.bytes, publicSalt: salt)
    }

    /// 32 bytes, not secret, that only this key has. FORMAT.md §1.1 row 14.
    public borrowing func commitment(of file: FileID) throws(KeyError) -> [UInt8] {
        try secret.derivePublic(.keyCommitment, file.bytes, byteCount: 32)
    }
}
