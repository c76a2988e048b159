extension SecretBytes {
    /// PBKDF2-HMAC-SHA1 (RFC 8018 §5.2) of the first bytes of this password. For RNCryptor's messages and nothing else.
    ///
    /// - Parameters:
    ///   - prefix: how many bytes of the password count.
    ///   - salt: not secret.
    ///   - byteCount: of the key.
    /// - Throws: `wrongLength` for a password of 2^31 bytes and more, which libcrypto cannot count.
    package borrowing func pbkdf2SHA1(
        prefix: Int, salt: [UInt8], iterations: Int, byteCount: Int
    ) throws(KeyError) -> SecretBytes {
        guard prefix <= count, prefix <= Int(Int32.max) else {
            throw .wrongLength(of: "password", expected: min(count, Int(Int32.max)), actual: prefix)
        }
        return try withUnsafeBytes { password throws(KeyError) in
            try SecretBytes(byteCount: byteCount) { output throws(KeyError) in
                try LibCrypto.pbkdf2SHA1(
                    password: UnsafeRawBufferPointer(rebasing: password[..<prefix]), salt: salt,
                    iterations: iterations, into: output)
            }
        }
    }
}
