import CLibCrypto
import CSecretMemory

/// The one door to libcrypto, with the files `LibCrypto+…`. Everything else in this module is written in these terms.
///
/// Buffers come in and go out as raw pointers so that secret bytes are never copied into Swift values.
enum LibCrypto {
    private static let gcm = Fetched(EVP_CIPHER_fetch(nil, "AES-256-GCM", nil))
    private static let wrapCipher = Fetched(EVP_CIPHER_fetch(nil, "AES-256-WRAP", nil))
    private static let sha256Method = Fetched(EVP_MD_fetch(nil, "SHA256", nil))
    private static let sha512Method = Fetched(EVP_MD_fetch(nil, "SHA512", nil))

    /// The version of the library that is loaded: its first number, and what it says of itself. The C calls are
    /// `OPENSSL_version_major` and `OpenSSL_version`.
    static var version: (major: Int, text: String) {
        (Int(OPENSSL_version_major()), String(cString: OpenSSL_version(OPENSSL_VERSION)))
    }

    static func cleanse(_ bytes: UnsafeMutableRawBufferPointer) { OPENSSL_cleanse(bytes.baseAddress, bytes.count) }

    /// Whether two byte strings of equal length are equal, in a time that does not depend on where they differ.
    static func areEqual(_ a: UnsafeRawBufferPointer, _ b: UnsafeRawBufferPointer) -> Bool {
        a.count == b.count && CRYPTO_memcmp(a.baseAddress, b.baseAddress, a.count) == 0
    }

    // MARK: digests and derivation

    static func sha256(_ data: UnsafeRawBufferPointer, into digest: UnsafeMutableRawBufferPointer) throws(KeyError) {
        precondition(digest.count == 32)
        try check("SHA-256", EVP_Digest(data.baseAddress, data.count, digest.pointer, nil, sha256Method.pointer, nil))
    }

    /// SHA-256 over several pieces, for records too large to be joined first.
    static func sha256(pieces: [UnsafeRawBufferPointer]) throws(KeyError) -> [UInt8] {
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        try check("SHA-256", EVP_DigestInit_ex2(context, sha256Method.pointer, nil))
        for piece in pieces { try check("SHA-256", EVP_DigestUpdate(context, piece.baseAddress, piece.count)) }
        var digest = [UInt8](repeating: 0, count: 32)
        try check("SHA-256", EVP_DigestFinal_ex(context, &digest, nil))
        return digest
    }

    /// HMAC-SHA256 without a key: each use copies it, which is cheaper than to look for the digest by name again.
    private static let hmac = Fetched(unusedHMAC())

    private static func unusedHMAC() -> OpaquePointer? {
        let method = EVP_MAC_fetch(nil, "HMAC", nil)
        defer { EVP_MAC_free(method) }
        let parameters = [
            OSSL_PARAM_construct_utf8_string(address("digest"), UnsafeMutablePointer(mutating: address("SHA256")), 0),
            OSSL_PARAM_construct_end(),
        ]
        guard let context = EVP_MAC_CTX_new(method) else { return nil }
        if EVP_MAC_CTX_set_params(context, parameters) == 1 { return context }
        EVP_MAC_CTX_free(context)
        return nil
    }

    /// A copy, to be freed.
    private static func makeHMAC() throws(KeyError) -> OpaquePointer {
        guard let unused = hmac.pointer, let context = EVP_MAC_CTX_dup(unused) else { throw failure("HMAC") }
        return context
    }

    static func hmacSHA256(
        key: UnsafeRawBufferPointer, _ data: UnsafeRawBufferPointer, into tag: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        let context = try makeHMAC()
        defer { EVP_MAC_CTX_free(context) }
        try check("HMAC", runHMAC(context, key, [data], into: tag))
    }

    /// - Parameter key: at least one byte: an empty key would reuse the previous one.
    private static func runHMAC(
        _ context: OpaquePointer, _ key: UnsafeRawBufferPointer, _ pieces: [UnsafeRawBufferPointer],
        into tag: UnsafeMutableRawBufferPointer
    ) -> Int32 {
        precondition(key.count > 0 && tag.count == 32)
        guard EVP_MAC_init(context, key.pointer, key.count, nil) == 1 else { return 0 }
        for piece in pieces where EVP_MAC_update(context, piece.pointer, piece.count) != 1 { return 0 }
        return EVP_MAC_final(context, tag.pointer, nil, tag.count)
    }

    static func sha512(_ data: UnsafeRawBufferPointer, into digest: UnsafeMutableRawBufferPointer) throws(KeyError) {
        precondition(digest.count == 64)
        try check("SHA-512", EVP_Digest(data.baseAddress, data.count, digest.pointer, nil, sha512Method.pointer, nil))
    }

    /// HKDF-SHA256 (RFC 5869 §2). In terms of HMAC: the library's own HKDF looks for its digest by name each time, which takes as long again.
    ///
    /// - Parameter salt: nil or empty: 32 zero bytes.
    static func hkdf(
        key: UnsafeRawBufferPointer, salt: UnsafeRawBufferPointer?, info: [UInt8],
        into output: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        guard (1...255 * 32).contains(output.count) else { throw failure("HKDF") }
        let context = try makeHMAC()
        defer { EVP_MAC_CTX_free(context) }
        // The pseudorandom key, and a block of output.
        let slot = SecretArena.shared.reserve(byteCount: 64)
        defer { SecretArena.shared.zeroAndRelease(slot) }
        let (extracted, block) = (slot.part(0..<32), slot.part(32..<64))
        let zeros = [UInt8](repeating: 0, count: 32)
        try check(
            "HKDF",
            zeros.withUnsafeBytes { zeros in
                let salt = salt.flatMap { $0.count > 0 ? $0 : nil } ?? zeros
                return runHMAC(context, salt, [key], into: extracted)
            })
        for number in 1...(output.count + 31) / 32 {
            let before = UnsafeRawBufferPointer(block.part(0..<(number == 1 ? 0 : 32)))
            try check(
                "HKDF",
                (info + [UInt8(number)]).withUnsafeBytes { info in
                    runHMAC(context, UnsafeRawBufferPointer(extracted), [before, info], into: block)
                })
            let rest = output.part(32 * (number - 1)..<output.count)
            rest.copyMemory(from: UnsafeRawBufferPointer(block.part(0..<min(32, rest.count))))
        }
    }

    static func pbkdf2SHA256(
        passcode: UnsafeRawBufferPointer, salt: [UInt8], iterations: Int, into output: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        let start = passcode.baseAddress?.assumingMemoryBound(to: CChar.self)
        try check(
            "PBKDF2",
            PKCS5_PBKDF2_HMAC(
                start, Int32(passcode.count), salt, Int32(salt.count), Int32(iterations), sha256Method.pointer,
                Int32(output.count), output.pointer))
    }

    // MARK: key wrap, RFC 3394

    static func wrap(
        kek: UnsafeRawBufferPointer, key: UnsafeRawBufferPointer, into wrapped: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        precondition(kek.count == 32 && wrapped.count == key.count + 8)
        try check("AES key wrap", runWrap(kek, key, into: wrapped, encrypting: 1))
    }

    /// - Throws: ``KeyError/unwrapFailed``; `key` is then zero.
    static func unwrap(
        kek: UnsafeRawBufferPointer, wrapped: UnsafeRawBufferPointer, into key: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        precondition(kek.count == 32 && wrapped.count == key.count + 8)
        // libcrypto may write 8 bytes more than the key while it unwraps, so it gets a slot of that size.
        let slot = SecretArena.shared.reserve(byteCount: wrapped.count)
        defer { SecretArena.shared.zeroAndRelease(slot) }
        guard runWrap(kek, wrapped, into: slot, encrypting: 0) == 1 else {
            ERR_clear_error()
            throw .unwrapFailed
        }
        key.copyMemory(from: UnsafeRawBufferPointer(rebasing: slot.prefix(key.count)))
    }

    private static func runWrap(
        _ kek: UnsafeRawBufferPointer, _ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer,
        encrypting: Int32
    ) -> Int32 {
        let context = EVP_CIPHER_CTX_new()
        defer { EVP_CIPHER_CTX_free(context) }
        EVP_CIPHER_CTX_set_flags(context, Int32(EVP_CIPHER_CTX_FLAG_WRAP_ALLOW))
        guard EVP_CipherInit_ex2(context, wrapCipher.pointer, kek.pointer, nil, encrypting, nil) == 1 else { return 0 }
        var count: Int32 = 0
        return EVP_CipherUpdate(context, output.pointer, &count, input.pointer, Int32(input.count))
    }

    // MARK: AES-256-GCM

    /// A context with its key set and no nonce yet; free it with ``freeGCM(_:)``, which wipes it.
    static func makeGCM(key: UnsafeRawBufferPointer, sealing: Bool) throws(KeyError) -> OpaquePointer {
        precondition(key.count == 32)
        guard let context = EVP_CIPHER_CTX_new() else { throw failure("AES-GCM") }
        guard EVP_CipherInit_ex2(context, gcm.pointer, key.pointer, nil, sealing ? 1 : 0, nil) == 1 else {
            EVP_CIPHER_CTX_free(context)
            throw failure("AES-GCM")
        }
        return context
    }

    static func freeGCM(_ context: OpaquePointer) {
        EVP_CIPHER_CTX_free(context)
        protectfs_clear_vectors()
    }

    static func seal(
        _ context: OpaquePointer, nonce: UnsafeRawBufferPointer, associated: UnsafeRawBufferPointer,
        _ text: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        precondition(nonce.count == 12 && output.count == text.count + 28)
        output.copyMemory(from: nonce)
        let body = output.baseAddress! + 12
        var written: Int32 = 0
        var good = EVP_CipherInit_ex2(context, nil, nil, nonce.pointer, -1, nil)
        if good == 1 { good = EVP_CipherUpdate(context, nil, &written, associated.pointer, Int32(associated.count)) }
        if text.count > 0 {
            if good == 1 { good = EVP_CipherUpdate(context, body.bytes, &written, text.pointer, Int32(text.count)) }
        }
        if good == 1 { good = EVP_CipherFinal_ex(context, (body + text.count).bytes, &written) }
        if good == 1 { good = EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, body + text.count) }
        try check("AES-GCM", good)
    }

    /// - Throws: ``KeyError/authenticationFailed``; `output` is then zero.
    static func open(
        _ context: OpaquePointer, associated: UnsafeRawBufferPointer, _ sealed: UnsafeRawBufferPointer,
        into output: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        precondition(sealed.count >= 28 && output.count == sealed.count - 28)
        let start = sealed.baseAddress!
        var written: Int32 = 0
        var good = EVP_CipherInit_ex2(context, nil, nil, sealed.pointer, -1, nil)
        if good == 1 { good = EVP_CipherUpdate(context, nil, &written, associated.pointer, Int32(associated.count)) }
        if output.count > 0 {
            let text = (start + 12).assumingMemoryBound(to: UInt8.self)
            if good == 1 { good = EVP_CipherUpdate(context, output.pointer, &written, text, Int32(output.count)) }
        }
        let tag = UnsafeMutableRawPointer(mutating: start + sealed.count - 16)
        if good == 1 { good = EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16, tag) }
        var nothing: UInt8 = 0
        guard good == 1, EVP_CipherFinal_ex(context, &nothing, &written) == 1 else {
            cleanse(output)
            ERR_clear_error()
            throw .authenticationFailed
        }
    }

    // MARK: X25519

    static func x25519PublicKey(of privateKey: UnsafeRawBufferPointer) throws(KeyError) -> [UInt8] {
        let key = EVP_PKEY_new_raw_private_key_ex(nil, "X25519", nil, privateKey.pointer, privateKey.count)
        defer { EVP_PKEY_free(key) }
        var publicKey = [UInt8](repeating: 0, count: 32)
        var count = 32
        try check("X25519", key == nil ? 0 : EVP_PKEY_get_raw_public_key(key, &publicKey, &count))
        return publicKey
    }

    static func x25519(
        privateKey: UnsafeRawBufferPointer, publicKey: [UInt8], into shared: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        precondition(publicKey.count == 32 && shared.count == 32)
        let own = EVP_PKEY_new_raw_private_key_ex(nil, "X25519", nil, privateKey.pointer, privateKey.count)
        defer { EVP_PKEY_free(own) }
        let other = EVP_PKEY_new_raw_public_key_ex(nil, "X25519", nil, publicKey, 32)
        defer { EVP_PKEY_free(other) }
        guard own != nil, other != nil, let context = EVP_PKEY_CTX_new_from_pkey(nil, own, nil) else {
            throw failure("X25519")
        }
        defer { EVP_PKEY_CTX_free(context) }
        var count = 32
        guard EVP_PKEY_derive_init(context) == 1, EVP_PKEY_derive_set_peer(context, other) == 1 else {
            throw failure("X25519")
        }
        // libcrypto itself refuses the all-zero result.
        guard EVP_PKEY_derive(context, shared.pointer, &count) == 1 else {
            ERR_clear_error()
            throw .unusablePublicKey
        }
    }

    // MARK: errors

    static func check(_ operation: String, _ result: Int32) throws(KeyError) {
        guard result == 1 else { throw failure(operation) }
    }

    static func failure(_ operation: String) -> KeyError {
        let code = ERR_get_error()
        ERR_clear_error()
        return .libraryFailed(operation: operation, code: UInt(code))
    }

    static func address(_ name: StaticString) -> UnsafePointer<CChar> {
        UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self)
    }
}

extension UnsafeRawBufferPointer {
    var pointer: UnsafePointer<UInt8>? { baseAddress?.assumingMemoryBound(to: UInt8.self) }
}

extension UnsafeMutableRawBufferPointer {
    var pointer: UnsafeMutablePointer<UInt8>? { baseAddress?.assumingMemoryBound(to: UInt8.self) }

    fileprivate func part(_ range: Range<Int>) -> UnsafeMutableRawBufferPointer { .init(rebasing: self[range]) }
}

extension UnsafeMutableRawPointer {
    fileprivate var bytes: UnsafeMutablePointer<UInt8> { assumingMemoryBound(to: UInt8.self) }
}
