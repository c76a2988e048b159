import CLibSSL

extension LibSSL {
    /// Something that libcrypto has against a chain.
    struct Refusal: Hashable {
        /// `X509_V_ERR_…`.
        let code: Int32
        /// What libcrypto calls it.
        let text: String
        /// Where it was, if it was at one certificate.
        let certificate: Certificate?
    }

    /// What came of a verification.
    struct Verification {
        /// All of them: verification went on after each.
        var refusals: [Refusal] = []
        /// From the server's certificate to the anchor; to where it broke off if there is none.
        var chain: [Certificate] = []
        /// Whether libcrypto reached the end of its checks. What it has not looked at may be anything.
        var wasCompleted = false
    }

    /// Where libcrypto was told at its making to look for roots. The C calls are `X509_get_default_cert_file` and `…_dir`.
    static var defaultRoots: (file: String, directory: String) {
        (String(cString: X509_get_default_cert_file()), String(cString: X509_get_default_cert_dir()))
    }

    /// Certificates that vouch for others. Used by any number of threads.
    final class CertificateStore: @unchecked Sendable {  // an X509_STORE has a lock of its own
        let pointer: OpaquePointer

        init(_ certificates: [Certificate]) throws(TrustError) {
            guard let pointer = X509_STORE_new() else { throw failure("X509_STORE_new") }
            self.pointer = pointer
            for certificate in certificates {
                let added = withExtendedLifetime(certificate) {
                    X509_STORE_add_cert(pointer, certificate.parsed.pointer)
                }
                guard added == 1 else { throw failure("X509_STORE_add_cert") }
            }
        }

        deinit { X509_STORE_free(pointer) }

        /// Adds those of a PEM file, up to the first that cannot be read.
        func load(file: String) {
            defer { ERR_clear_error() }
            _ = X509_STORE_load_file(pointer, file)
        }

        /// Looks into a directory of hashed names when a certificate is needed.
        func look(in directory: String) throws(TrustError) {
            guard X509_STORE_load_path(pointer, directory) == 1 else { throw failure("X509_STORE_load_path") }
        }
    }

    /// Builds a chain from the first of `presented` to a certificate of `store`, and checks it as that of a TLS server.
    ///
    /// Any certificate of the store is an anchor, self-signed or not. The C call is `X509_verify_cert`.
    ///
    /// - Parameter time: seconds since 1970.
    /// - Throws: only if there was no memory. That nothing was thrown says nothing about the chain.
    static func verify(
        _ presented: [Certificate], against store: CertificateStore, at time: Int64
    ) throws(TrustError) -> Verification {
        guard let server = presented.first, let context = X509_STORE_CTX_new(), let untrusted = OPENSSL_sk_new_null()
        else {
            throw failure("X509_STORE_CTX_new")
        }
        defer {
            X509_STORE_CTX_free(context)
            OPENSSL_sk_free(untrusted)  // not what it holds
            ERR_clear_error()
            withExtendedLifetime((presented, store)) {}  // the context only borrows them
        }
        for certificate in presented {
            let pointer = UnsafeRawPointer(certificate.parsed.pointer)
            guard OPENSSL_sk_push(untrusted, pointer) > 0 else { throw failure("OPENSSL_sk_push") }
        }
        guard X509_STORE_CTX_init(context, store.pointer, server.parsed.pointer, untrusted) == 1,
            X509_STORE_CTX_set_default(context, "ssl_server") == 1,
            let parameters = X509_STORE_CTX_get0_param(context)
        else { throw failure("X509_STORE_CTX_init") }
        X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST))
        X509_VERIFY_PARAM_set_time(parameters, Int(time))
        X509_VERIFY_PARAM_set_depth(parameters, 10)
        X509_VERIFY_PARAM_set_auth_level(parameters, 2)  // 112 bits

        let log = RefusalLog(of: presented)
        defer { withExtendedLifetime(log) {} }
        X509_STORE_CTX_set_ex_data(context, 0, Unmanaged.passUnretained(log).toOpaque())
        X509_STORE_CTX_set_verify_cb(context) { accepted, context in
            if accepted == 0, let log = X509_STORE_CTX_get_ex_data(context, 0) {
                Unmanaged<RefusalLog>.fromOpaque(log).takeUnretainedValue().note(context)
            }
            return 1  // go on: what else is wrong?
        }
        let isCompleted = X509_verify_cert(context) == 1

        let built = X509_STORE_CTX_get0_chain(context)
        let chain = (0..<max(0, OPENSSL_sk_num(built))).map { index in
            OPENSSL_sk_value(built, index).flatMap { log.certificate(OpaquePointer($0)) }
        }
        return Verification(
            refusals: log.refusals, chain: chain.compactMap(\.self),
            wasCompleted: isCompleted && !log.hasFailed && !chain.contains(nil))
    }

    /// What the callback of a verification writes down.
    private final class RefusalLog {
        private(set) var refusals: [Refusal] = []
        /// Whether something could not be written down.
        private(set) var hasFailed = false
        private let presented: [Certificate]

        init(of presented: [Certificate]) { self.presented = presented }

        func note(_ context: OpaquePointer?) {
            let (code, pointer) = (X509_STORE_CTX_get_error(context), X509_STORE_CTX_get_current_cert(context))
            let certificate = pointer.flatMap(certificate)
            hasFailed = hasFailed || (pointer != nil && certificate == nil)
            let text = String(cString: X509_verify_cert_error_string(Int(code)))
            refusals.append(Refusal(code: code, text: text, certificate: certificate))
        }

        /// Those that were presented need not be read again.
        func certificate(_ pointer: OpaquePointer) -> Certificate? {
            presented.first { $0.parsed.pointer == pointer }
                ?? encoded { i2d_X509(pointer, $0) }.flatMap { try? Certificate(der: $0) }
        }
    }
}

extension LibSSL.Refusal {
    /// What the code means to us: a table, and nothing that is not in it is ever accepted.
    ///
    /// - SeeAlso: X509_STORE_CTX_get_error(3).
    var reason: VerificationReason {
        switch code {
        case X509_V_ERR_CERT_HAS_EXPIRED: .recoverable(.expired)
        case X509_V_ERR_CERT_NOT_YET_VALID: .recoverable(.notYetValid)
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT: .recoverable(.selfSigned)
        case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT,
            X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
            .recoverable(.unknownRoot)
        case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE: .recoverable(.incompleteChain)

        case X509_V_ERR_CERT_REJECTED: .denied

        case X509_V_ERR_CERT_REVOKED: .fatal(.revoked)
        case X509_V_ERR_CERT_SIGNATURE_FAILURE, X509_V_ERR_UNABLE_TO_DECRYPT_CERT_SIGNATURE,
            X509_V_ERR_UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY, X509_V_ERR_NO_ISSUER_PUBLIC_KEY,
            X509_V_ERR_SUBJECT_ISSUER_MISMATCH, X509_V_ERR_AKID_SKID_MISMATCH,
            X509_V_ERR_AKID_ISSUER_SERIAL_MISMATCH, X509_V_ERR_UNSUPPORTED_SIGNATURE_ALGORITHM,
            X509_V_ERR_SIGNATURE_ALGORITHM_MISMATCH, X509_V_ERR_SIGNATURE_ALGORITHM_INCONSISTENCY:
            .fatal(.badSignature)
        case X509_V_ERR_EE_KEY_TOO_SMALL, X509_V_ERR_CA_KEY_TOO_SMALL, X509_V_ERR_EC_KEY_EXPLICIT_PARAMS:
            .fatal(.weakKey)
        case X509_V_ERR_CA_MD_TOO_WEAK: .fatal(.weakSignature)
        case X509_V_ERR_INVALID_PURPOSE, X509_V_ERR_CERT_UNTRUSTED: .fatal(.notForServers)
        case X509_V_ERR_INVALID_CA, X509_V_ERR_INVALID_NON_CA, X509_V_ERR_PATH_LENGTH_EXCEEDED,
            X509_V_ERR_KEYUSAGE_NO_CERTSIGN:
            .fatal(.notAnAuthority)
        case X509_V_ERR_PERMITTED_VIOLATION, X509_V_ERR_EXCLUDED_VIOLATION, X509_V_ERR_SUBTREE_MINMAX,
            X509_V_ERR_UNSUPPORTED_CONSTRAINT_TYPE, X509_V_ERR_UNSUPPORTED_CONSTRAINT_SYNTAX,
            X509_V_ERR_UNSUPPORTED_NAME_SYNTAX:
            .fatal(.nameConstraint)
        case X509_V_ERR_UNHANDLED_CRITICAL_EXTENSION, X509_V_ERR_INVALID_EXTENSION,
            X509_V_ERR_INVALID_POLICY_EXTENSION, X509_V_ERR_UNSUPPORTED_EXTENSION_FEATURE:
            .fatal(.extensionNotUnderstood)
        case X509_V_ERR_ERROR_IN_CERT_NOT_BEFORE_FIELD, X509_V_ERR_ERROR_IN_CERT_NOT_AFTER_FIELD: .fatal(.malformed)
        case X509_V_ERR_CERT_CHAIN_TOO_LONG, X509_V_ERR_PATH_LOOP: .fatal(.chainTooLong)
        default: .fatal(.other(code: code, text))
        }
    }
}
