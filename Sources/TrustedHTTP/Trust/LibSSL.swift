import CLibSSL
import Glibc

/// The one door to libssl, and to what libcrypto does with certificates. What happens in a handshake is in
/// `LibSSL+Handshake.swift`, the PKCS#12 in `LibSSL+Identity.swift`.
///
/// libcurl looks at the thread's error queue as well: each failure here leaves the queue empty.
enum LibSSL {
    /// SHA-256, 32 bytes. The C call is `EVP_Digest`.
    static func sha256(_ bytes: [UInt8]) throws(TrustError) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        guard EVP_Digest(bytes, bytes.count, &digest, nil, EVP_sha256(), nil) == 1 else { throw failure("SHA-256") }
        return digest
    }

    static func failure(_ operation: String) -> TrustError {
        ERR_clear_error()
        return .cryptographyLibrary(operation)
    }

    /// What libcrypto says of its latest failure on this thread; forgets it.
    static func takeReason() -> String {
        defer { ERR_clear_error() }
        return ERR_reason_error_string(ERR_peek_last_error()).map { String(cString: $0) } ?? "malformed"
    }

    /// What an `i2d_…` function writes.
    static func encoded(_ encode: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>) -> Int32) -> [UInt8]? {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = encode(&bytes)
        guard count >= 0, let bytes else {
            ERR_clear_error()
            return nil
        }
        defer { CRYPTO_free(bytes, nil, 0) }
        return Array(UnsafeBufferPointer(start: bytes, count: Int(count)))
    }

    // MARK: reading

    /// Reads one DER certificate, and all of the bytes. The C calls are `d2i_X509` and `i2d_X509`.
    static func parse(_ der: [UInt8]) throws(TrustError) -> ParsedCertificate {
        let pointer = der.withUnsafeBufferPointer { bytes in
            var next = bytes.baseAddress
            return d2i_X509(nil, &next, bytes.count)
        }
        guard let pointer else { throw .malformedCertificate(why: takeReason()) }
        let parsed = ParsedCertificate(taking: pointer)
        // Bytes after it, or an encoding that is not DER: then one certificate would have several fingerprints.
        guard let canonical = encoded({ i2d_X509(pointer, $0) }), canonical == der else {
            throw .malformedCertificate(why: "not in DER, or something follows it")
        }
        // Reads the extensions, once and for all threads.
        guard X509_check_purpose(pointer, -1, 0) == 1 else {
            ERR_clear_error()
            throw .malformedCertificate(why: "its extensions cannot be read")
        }
        guard !parsed.subjectPublicKeyInfo.isEmpty else { throw .malformedCertificate(why: "it has no public key") }
        return parsed
    }

    /// All blocks of a PEM text, decoded but not looked into. The C call is `PEM_read_bio`, which never asks for a passphrase.
    static func pemBlocks(_ text: [UInt8]) throws(TrustError) -> [(label: String, bytes: [UInt8])] {
        guard let source = BIO_new_mem_buf(text, Int32(clamping: text.count)) else { throw failure("BIO_new_mem_buf") }
        defer { BIO_free(source) }
        var blocks: [(label: String, bytes: [UInt8])] = []
        while true {
            var (label, header): (UnsafeMutablePointer<CChar>?, UnsafeMutablePointer<CChar>?)
            var bytes: UnsafeMutablePointer<UInt8>?
            var count = 0
            guard PEM_read_bio(source, &label, &header, &bytes, &count) == 1, let label, let bytes else {
                let reason = Int32(truncatingIfNeeded: ERR_peek_last_error() & 0x7F_FFFF)
                guard reason == PEM_R_NO_START_LINE else { throw .malformedCertificate(why: "PEM, " + takeReason()) }
                ERR_clear_error()
                return blocks
            }
            blocks.append((String(cString: label), Array(UnsafeBufferPointer(start: bytes, count: count))))
            CRYPTO_free(label, nil, 0)
            CRYPTO_free(header, nil, 0)
            CRYPTO_clear_free(bytes, count, nil, 0)
        }
    }

    /// libcrypto's own view of a certificate. Nothing in it changes any more.
    ///
    /// ``pointer`` lives as long as this object: a caller that passes it to C keeps the object until C is done.
    final class ParsedCertificate: @unchecked Sendable {  // an X509 with its extensions read is not written to
        let pointer: OpaquePointer

        init(taking pointer: OpaquePointer) { self.pointer = pointer }

        deinit { X509_free(pointer) }
    }
}

extension LibSSL.ParsedCertificate {
    /// DER. The C calls are `X509_get_X509_PUBKEY` and `i2d_X509_PUBKEY`.
    var subjectPublicKeyInfo: [UInt8] {
        LibSSL.encoded { i2d_X509_PUBKEY(X509_get_X509_PUBKEY(pointer), $0) } ?? []
    }

    var subject: String { text(of: X509_get_subject_name(pointer)) }
    var issuer: String { text(of: X509_get_issuer_name(pointer)) }

    /// The C call is `X509_self_signed`, with the signature checked.
    var isSelfSigned: Bool {
        defer { ERR_clear_error() }
        return X509_self_signed(pointer, 1) == 1
    }

    var validity: ClosedRange<Int64>? {
        guard let first = seconds(X509_get0_notBefore(pointer)), let last = seconds(X509_get0_notAfter(pointer)),
            first <= last
        else { return nil }
        return first...last
    }

    /// The dNSName and iPAddress entries of the SubjectAltName (RFC 5280 §4.2.1.6).
    var alternativeNames: (hosts: [String], addresses: [String]) {
        guard let found = X509_get_ext_d2i(pointer, NID_subject_alt_name, nil, nil) else { return ([], []) }
        let names = OpaquePointer(found)
        defer { GENERAL_NAMES_free(names) }
        var (hosts, addresses): ([String], [String]) = ([], [])
        for index in 0..<OPENSSL_sk_num(names) {
            guard let name = OPENSSL_sk_value(names, index)?.assumingMemoryBound(to: GENERAL_NAME.self) else {
                continue
            }
            switch name.pointee.type {
            case GEN_DNS: hosts.append(String(decoding: bytes(of: name.pointee.d.dNSName), as: UTF8.self))
            case GEN_IPADD: addresses.append(Self.address(Array(bytes(of: name.pointee.d.iPAddress))))
            default: continue
            }
        }
        return (hosts, addresses)
    }

    /// Whether the SubjectAltName has this host (RFC 9525 §6.3: no common name, a wildcard only as the whole first label).
    /// The C calls are `X509_check_host` and `X509_check_ip`.
    func isFor(_ host: HostName) -> Bool {
        defer { ERR_clear_error() }
        return switch host {
        case .name(let name):
            X509_check_host(
                pointer, name, name.utf8.count,
                UInt32(X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS), nil) == 1
        case .address(let address): X509_check_ip(pointer, address, address.count, 0) == 1
        }
    }

    /// `XN_FLAG_RFC2253`, a macro that Swift does not see.
    private static let nameFlags = UInt(
        ASN1_STRFLGS_ESC_2253 | ASN1_STRFLGS_ESC_CTRL | ASN1_STRFLGS_ESC_MSB | ASN1_STRFLGS_UTF8_CONVERT
            | ASN1_STRFLGS_DUMP_UNKNOWN | ASN1_STRFLGS_DUMP_DER | XN_FLAG_SEP_COMMA_PLUS | XN_FLAG_DN_REV
            | XN_FLAG_DUMP_UNKNOWN_FIELDS)

    /// The C call is `X509_NAME_print_ex`.
    private func text(of name: OpaquePointer?) -> String {
        guard let memory = BIO_new(BIO_s_mem()) else { return "" }
        defer { BIO_free(memory) }
        X509_NAME_print_ex(memory, name, 0, Self.nameFlags)
        var start: UnsafeMutablePointer<CChar>?
        let count = BIO_ctrl(memory, BIO_CTRL_INFO, 0, &start)
        ERR_clear_error()
        guard let start, count > 0 else { return "" }
        return Escaped(String(decoding: UnsafeRawBufferPointer(start: start, count: count), as: UTF8.self)).description
    }

    private func bytes(of string: UnsafePointer<ASN1_STRING>?) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: ASN1_STRING_get0_data(string), count: Int(ASN1_STRING_length(string)))
    }

    private func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64? {
        var parts = tm()
        guard ASN1_TIME_to_tm(time, &parts) == 1 else {
            ERR_clear_error()
            return nil
        }
        return Int64(timegm(&parts))
    }

    private static func address(_ bytes: [UInt8]) -> String {
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let family = bytes.count == 4 ? AF_INET : AF_INET6
        guard [4, 16].contains(bytes.count), inet_ntop(family, bytes, &text, UInt32(text.count)) != nil else {
            return "not an address: \(Hexadecimal.text(bytes))"
        }
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
