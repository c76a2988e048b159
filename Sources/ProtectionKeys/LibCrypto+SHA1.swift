import CLibCrypto

/// PBKDF2-HMAC-SHA1, which RNCryptor's messages ask for. Nothing of ours is derived with it.
extension LibCrypto {
    private static let sha1Method = Fetched(EVP_MD_fetch(nil, "SHA1", nil))

    /// - Parameter password: fewer than 2^31 bytes, the bound of PKCS5_PBKDF2_HMAC(3).
    static func pbkdf2SHA1(
        password: UnsafeRawBufferPointer, salt: [UInt8], iterations: Int, into output: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        precondition(password.count <= Int(Int32.max))
        guard let method = sha1Method.pointer else { throw failure("SHA-1") }
        let start = password.baseAddress?.assumingMemoryBound(to: CChar.self)
        try check(
            "PBKDF2-HMAC-SHA1",
            PKCS5_PBKDF2_HMAC(
                start, Int32(password.count), salt, Int32(salt.count), Int32(iterations), method, Int32(output.count),
                output.pointer))
    }
}
