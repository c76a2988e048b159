import CLibSSL
import ProtectionKeys

extension LibSSL {
    /// A certificate, its key and those that vouch for it, as libcrypto's own objects. Nothing in it changes any more.
    final class IdentityKeys: @unchecked Sendable {  // libcrypto only reads them
        let certificate: OpaquePointer
        let key: OpaquePointer
        /// A stack of X509; nil if there are none.
        let chain: OpaquePointer?

        fileprivate init(taking certificate: OpaquePointer, key: OpaquePointer, chain: OpaquePointer?) {
            (self.certificate, self.key, self.chain) = (certificate, key, chain)
        }

        deinit {
            X509_free(certificate)
            EVP_PKEY_free(key)  // wipes it
            freeCertificates(chain)
        }

        /// The client's own first.
        func certificates() throws(TrustError) -> [Certificate] {
            var all: [Certificate] = []
            let others = (0..<max(0, OPENSSL_sk_num(chain))).map {
                OPENSSL_sk_value(chain, $0).map { OpaquePointer($0) }
            }
            for pointer in [certificate] + others {
                all.append(try Certificate(der: encoded { i2d_X509(pointer, $0) } ?? []))
            }
            return all
        }
    }

    static func freeCertificates(_ stack: OpaquePointer?) {
        OPENSSL_sk_pop_free(stack) { X509_free($0.map { OpaquePointer($0) }) }
    }

    /// Reads a PKCS #12 file that has a passphrase. The C calls are `PKCS12_verify_mac` and `PKCS12_parse`.
    static func identity(
        pkcs12 der: [UInt8], passphrase: borrowing SecretBytes
    ) throws(ClientIdentityError) -> IdentityKeys {
        // C wants a zero at its end, and none before.
        let text = passphrase.withUnsafeBytes { passphrase in
            passphrase.contains(0)
                ? nil
                : SecretBytes(byteCount: passphrase.count + 1) { slot in slot.copyMemory(from: passphrase) }
        }
        guard let text else { throw .wrongPassphrase }
        return try text.withUnsafeBytes { text throws(ClientIdentityError) in
            try identity(pkcs12: der, text.assumingMemoryBound(to: CChar.self).baseAddress)
        }
    }

    /// Reads one that has none.
    static func identity(pkcs12 der: [UInt8]) throws(ClientIdentityError) -> IdentityKeys {
        try identity(pkcs12: der, nil)
    }

    private static func identity(
        pkcs12 der: [UInt8], _ passphrase: UnsafePointer<CChar>?
    ) throws(ClientIdentityError) -> IdentityKeys {
        let file = der.withUnsafeBufferPointer { bytes in
            var next = bytes.baseAddress
            return d2i_PKCS12(nil, &next, bytes.count)
        }
        guard let file else { throw .malformed(why: takeReason()) }
        defer {
            PKCS12_free(file)
            ERR_clear_error()
        }
        var cost = EncryptionCost()
        try cost.addOuterParts(of: file)
        // Without a passphrase some programs take none and others an empty one; PKCS12_parse tries both.
        guard PKCS12_verify_mac(file, passphrase, -1) == 1 || (passphrase == nil && PKCS12_verify_mac(file, "", 0) == 1)
        else { throw .wrongPassphrase }
        try cost.addInnerParts(of: file, passphrase)

        var (key, certificate, chain): (OpaquePointer?, OpaquePointer?, OpaquePointer?)
        guard PKCS12_parse(file, passphrase, &key, &certificate, &chain) == 1 else {
            // The passphrase was right. So we cannot decrypt this encryption, or somebody who knows the passphrase damaged the file.
            let isUnsupported = ERR_GET_REASON(ERR_peek_error()) == ERR_R_UNSUPPORTED
            throw isUnsupported ? .unsupportedEncryption : .malformed(why: takeReason())
        }
        guard let key, let certificate else {
            let hasKey = key != nil
            EVP_PKEY_free(key)
            X509_free(certificate)
            freeCertificates(chain)
            throw hasKey ? .noCertificate : .noPrivateKey
        }
        return IdentityKeys(taking: certificate, key: key, chain: chain)
    }
}
