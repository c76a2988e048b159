import CLibSSL

extension LibSSL {
    /// What it takes to check the passphrase of a PKCS #12 file and to decrypt what is in it, as iterations of a hash (RFC 7292 §4 and App. B,
    /// RFC 8018 §6.2). A crafted file must not keep us busy for ever, and each of its parts has a number of its own.
    struct EncryptionCost {
        private static let limit = 10_000_000
        private var sum = 0

        /// Adds what the authentication code takes, and the parts that are not inside encrypted ones. Derives nothing.
        ///
        /// - Throws: `notAuthenticated` if there is no authentication code; `tooExpensive`.
        mutating func addOuterParts(of file: OpaquePointer) throws(ClientIdentityError) {
            guard PKCS12_mac_present(file) == 1 else { throw .notAuthenticated }
            var iterations: UnsafePointer<ASN1_INTEGER>?
            PKCS12_get0_mac(nil, nil, nil, &iterations, file)
            try add(iterations.map { ASN1_INTEGER_get($0) } ?? 1)
            try Self.forEachPart(of: file) { part throws(ClientIdentityError) in
                if let method = Self.encryption(of: part) {
                    try add(Self.iterations(of: method))
                } else {
                    try addBags(PKCS12_unpack_p7data(part))
                }
            }
        }

        /// Adds what is inside encrypted parts, which are decrypted for that. To be called when all that is outside has been added.
        ///
        /// - Throws: `tooExpensive`. Skips parts that do not decrypt: the code that reads the file reports why.
        mutating func addInnerParts(
            of file: OpaquePointer, _ passphrase: UnsafePointer<CChar>?
        ) throws(ClientIdentityError) {
            try Self.forEachPart(of: file) { part throws(ClientIdentityError) in
                guard Self.encryption(of: part) != nil else { return }
                var bags = PKCS12_unpack_p7encdata(part, passphrase, -1)
                // Without a passphrase some programs take none and others an empty one.
                if bags == nil, passphrase == nil { bags = PKCS12_unpack_p7encdata(part, "", 0) }
                ERR_clear_error()
                try addBags(bags)
            }
        }

        private mutating func add(_ iterations: Int) throws(ClientIdentityError) {
            let (sum, overflow) = self.sum.addingReportingOverflow(iterations)
            guard iterations > 0, !overflow, sum <= Self.limit else {
                throw .tooExpensive(iterations: overflow ? .max : max(sum, iterations))
            }
            self.sum = sum
        }

        /// - Parameter bags: is freed.
        private mutating func addBags(_ bags: OpaquePointer?) throws(ClientIdentityError) {
            defer { OPENSSL_sk_pop_free(bags) { PKCS12_SAFEBAG_free($0.map { OpaquePointer($0) }) } }
            try addEach(of: bags)
        }

        private mutating func addEach(of bags: OpaquePointer?) throws(ClientIdentityError) {
            for index in 0..<max(0, OPENSSL_sk_num(bags)) {
                guard let bag = OPENSSL_sk_value(bags, index).map({ OpaquePointer($0) }) else { continue }
                switch PKCS12_SAFEBAG_get_nid(bag) {
                case NID_pkcs8ShroudedKeyBag:
                    var method: UnsafePointer<X509_ALGOR>?
                    X509_SIG_get0(PKCS12_SAFEBAG_get0_pkcs8(bag), &method, nil)
                    if let method { try add(Self.iterations(of: method)) }
                // The decoder bounds how deep they can be.
                case NID_safeContentsBag: try addEach(of: PKCS12_SAFEBAG_get0_safes(bag))
                default: break
                }
            }
        }

        // MARK: parts

        private static func forEachPart(
            of file: OpaquePointer, _ body: (UnsafeMutablePointer<PKCS7>) throws(ClientIdentityError) -> Void
        ) throws(ClientIdentityError) {
            let parts = PKCS12_unpack_authsafes(file)
            defer { OPENSSL_sk_pop_free(parts) { PKCS7_free($0?.assumingMemoryBound(to: PKCS7.self)) } }
            for index in 0..<max(0, OPENSSL_sk_num(parts)) {
                if let part = OPENSSL_sk_value(parts, index) { try body(part.assumingMemoryBound(to: PKCS7.self)) }
            }
        }

        /// How a part is encrypted by a passphrase; nil if it is not.
        private static func encryption(of part: UnsafeMutablePointer<PKCS7>) -> UnsafePointer<X509_ALGOR>? {
            guard OBJ_obj2nid(part.pointee.type) == NID_pkcs7_encrypted, let contents = part.pointee.d.encrypted else {
                return nil
            }
            return UnsafePointer(contents.pointee.enc_data?.pointee.algorithm)
        }

        // MARK: methods

        /// 1 for what libcrypto will refuse.
        private static func iterations(of method: UnsafePointer<X509_ALGOR>) -> Int {
            let (identifier, parameters) = fields(of: method)
            guard let parameters else { return 1 }
            switch identifier {
            case NID_pbes2:
                guard let scheme = decode(parameters, d2i_PBE2PARAM) else { return 1 }
                defer { PBE2PARAM_free(scheme) }
                return scheme.pointee.keyfunc.map { iterations(of: $0) } ?? 1
            case NID_id_pbkdf2:
                guard let derivation = decode(parameters, d2i_PBKDF2PARAM) else { return 1 }
                defer { PBKDF2PARAM_free(derivation) }
                return ASN1_INTEGER_get(derivation.pointee.iter)
            case NID_id_scrypt:
                guard let derivation = decode(parameters, d2i_SCRYPT_PARAMS) else { return 1 }
                defer { SCRYPT_PARAMS_free(derivation) }
                let of = derivation.pointee
                return [of.costParameter, of.blockSize, of.parallelizationParameter].reduce(1) { product, number in
                    let (next, overflow) = product.multipliedReportingOverflow(by: ASN1_INTEGER_get(number))
                    return overflow ? .max : next
                }
            default:
                // Those of RFC 7292 and PBES1: the same two fields.
                guard let derivation = decode(parameters, d2i_PBEPARAM) else { return 1 }
                defer { PBEPARAM_free(derivation) }
                return ASN1_INTEGER_get(derivation.pointee.iter)
            }
        }

        /// The method, and its parameters as DER if they are a SEQUENCE.
        private static func fields(
            of method: UnsafePointer<X509_ALGOR>
        ) -> (identifier: Int32, parameters: UnsafeBufferPointer<UInt8>?) {
            var object: OpaquePointer?
            var type: Int32 = 0
            var value: UnsafeRawPointer?
            X509_ALGOR_get0(&object, &type, &value, method)
            guard type == V_ASN1_SEQUENCE, let value else { return (OBJ_obj2nid(object), nil) }
            let sequence = value.assumingMemoryBound(to: ASN1_STRING.self)
            return (
                OBJ_obj2nid(object),
                UnsafeBufferPointer(start: ASN1_STRING_get0_data(sequence), count: Int(ASN1_STRING_length(sequence)))
            )
        }

        private static func decode<T>(
            _ der: UnsafeBufferPointer<UInt8>,
            _ decoder: (
                UnsafeMutablePointer<UnsafeMutablePointer<T>?>?, UnsafeMutablePointer<UnsafePointer<UInt8>?>?, Int
            ) -> UnsafeMutablePointer<T>?
        ) -> UnsafeMutablePointer<T>? {
            var next = der.baseAddress
            return decoder(nil, &next, der.count)
        }
    }
}
