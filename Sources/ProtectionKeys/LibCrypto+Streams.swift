import CLibCrypto

/// Digests and MACs of what comes piece by piece: EVP_DigestInit(3), EVP_MAC(3).
extension LibCrypto {
    private static let methods: [RunningDigest.Algorithm: Fetched<OpaquePointer?>] = [
        .md5: Fetched(EVP_MD_fetch(nil, "MD5", nil)), .sha1: Fetched(EVP_MD_fetch(nil, "SHA1", nil)),
        .sha256: Fetched(EVP_MD_fetch(nil, "SHA256", nil)),
        .sha512: Fetched(EVP_MD_fetch(nil, "SHA512", nil)),
    ]
    private static let hmac = Fetched(EVP_MAC_fetch(nil, "HMAC", nil))

    /// - Throws: `libraryFailed` also where a system's policy forbids the algorithm, as FIPS does MD5.
    static func makeDigest(_ algorithm: RunningDigest.Algorithm) throws(KeyError) -> OpaquePointer {
        guard let method = methods[algorithm]?.pointer, let context = EVP_MD_CTX_new() else {
            throw failure(algorithm.rawValue)
        }
        guard EVP_DigestInit_ex2(context, method, nil) == 1 else {
            EVP_MD_CTX_free(context)
            throw failure(algorithm.rawValue)
        }
        return context
    }

    static func updateDigest(_ context: OpaquePointer, _ bytes: UnsafeRawBufferPointer) throws(KeyError) {
        try check("digest", EVP_DigestUpdate(context, bytes.baseAddress, bytes.count))
    }

    static func finishDigest(_ context: OpaquePointer, into output: UnsafeMutableRawBufferPointer) throws(KeyError) {
        try check("digest", EVP_DigestFinal_ex(context, output.pointer, nil))
    }

    /// Of what came so far; more may come.
    static func digestSoFar(
        _ context: OpaquePointer, into output: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        guard let copy = EVP_MD_CTX_new() else { throw failure("digest") }
        defer { EVP_MD_CTX_free(copy) }
        try check("digest", EVP_MD_CTX_copy_ex(copy, context))
        try finishDigest(copy, into: output)
    }

    static func freeDigest(_ context: OpaquePointer) { EVP_MD_CTX_free(context) }

    /// HMAC-SHA256.
    static func makeMAC(key: UnsafeRawBufferPointer) throws(KeyError) -> OpaquePointer {
        guard let context = EVP_MAC_CTX_new(hmac.pointer) else { throw failure("HMAC") }
        let parameters = [
            OSSL_PARAM_construct_utf8_string(address("digest"), UnsafeMutablePointer(mutating: address("SHA256")), 0),
            OSSL_PARAM_construct_end(),
        ]
        guard EVP_MAC_init(context, key.pointer, key.count, parameters) == 1 else {
            EVP_MAC_CTX_free(context)
            throw failure("HMAC")
        }
        return context
    }

    static func updateMAC(_ context: OpaquePointer, _ bytes: UnsafeRawBufferPointer) throws(KeyError) {
        try check("HMAC", EVP_MAC_update(context, bytes.pointer, bytes.count))
    }

    static func finishMAC(_ context: OpaquePointer, into output: UnsafeMutableRawBufferPointer) throws(KeyError) {
        var count = 0
        try check("HMAC", EVP_MAC_final(context, output.pointer, &count, output.count))
    }

    /// Of what came so far; more may come.
    static func macSoFar(_ context: OpaquePointer, into output: UnsafeMutableRawBufferPointer) throws(KeyError) {
        guard let copy = EVP_MAC_CTX_dup(context) else { throw failure("HMAC") }
        defer { EVP_MAC_CTX_free(copy) }
        try finishMAC(copy, into: output)
    }

    static func freeMAC(_ context: OpaquePointer) { EVP_MAC_CTX_free(context) }
}
