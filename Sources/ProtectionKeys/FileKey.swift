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

    /// 32 bytes, not secret, that only this key has. FORMAT.md §1.1 row 14.
    public borrowing func commitment(of file: FileID) throws(KeyError) -> [UInt8] {
        try secret.derivePublic(.keyCommitment, file.bytes, byteCount: 32)
    }
}
