import CLibSSL

extension LibSSL {
    /// Makes a TLS client refuse every server that `handshake` does not trust, before anything else is sent.
    ///
    /// Sets, for all connections of the context: TLS 1.2 at least, 112 bits of security at least, no resumed sessions (a server
    /// presents nothing in one), no log of keys, a verdict on the presented certificates in place of libssl's own, and the client's
    /// certificate if the server asks for one. The context keeps `handshake` until it is freed.
    ///
    /// The owner of the context must not change any of these settings afterwards, and must switch off its own checks of names.
    ///
    /// - Parameter context: an `SSL_CTX *` that no connection was made with yet.
    /// - Throws: ``TrustError/cryptographyLibrary(_:)``; nothing must be connected with the context then.
    package static func prepare(_ context: OpaquePointer, for handshake: TLSHandshake) throws(TrustError) {
        guard handshakeIndex >= 0 else { throw failure("CRYPTO_get_ex_new_index") }
        let kept = Unmanaged.passRetained(handshake)
        guard SSL_CTX_set_ex_data(context, handshakeIndex, kept.toOpaque()) == 1 else {
            kept.release()
            throw failure("SSL_CTX_set_ex_data")
        }
        guard SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, Int(TLS1_2_VERSION), nil) == 1 else {
            throw failure("SSL_CTX_set_min_proto_version")
        }
        SSL_CTX_set_security_level(context, max(2, SSL_CTX_get_security_level(context)))
        SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, Int(SSL_SESS_CACHE_OFF), nil)
        // SSL_OP_NO_TICKET, a macro that Swift does not see.
        SSL_CTX_set_options(context, 1 << 14)
        // libcurl writes the keys of connections where SSLKEYLOGFILE of the environment says.
        SSL_CTX_set_keylog_callback(context, nil)
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        SSL_CTX_set_cert_verify_callback(context, judge, nil)
        SSL_CTX_set_cert_cb(context, showIdentity, nil)
    }

    /// Where a context keeps its handshake; it is released with the context. The C call is `SSL_CTX_get_ex_new_index`.
    private static let handshakeIndex = CRYPTO_get_ex_new_index(
        CRYPTO_EX_INDEX_SSL_CTX, 0, nil, nil, nil,
        { _, handshake, _, _, _, _ in
            if let handshake { Unmanaged<TLSHandshake>.fromOpaque(handshake).release() }
        })

    /// The one that a connection was prepared with.
    static func handshake(of connection: OpaquePointer?) -> TLSHandshake? {
        guard let connection, let context = SSL_get_SSL_CTX(connection),
            let handshake = SSL_CTX_get_ex_data(context, handshakeIndex)
        else { return nil }
        return Unmanaged<TLSHandshake>.fromOpaque(handshake).takeUnretainedValue()
    }

    /// In place of `X509_verify_cert`: 1 lets the handshake go on. See SSL_CTX_set_cert_verify_callback(3).
    private static let judge: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32 = { context, _ in
        guard let context else { return 0 }
        // What libssl and who uses it look at afterwards, and what the alert to the server is made of.
        X509_STORE_CTX_set_error(context, X509_V_ERR_CERT_REJECTED)
        let connection = X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx())
        guard let handshake = handshake(of: connection.map(OpaquePointer.init)), handshake.judge(presented(in: context))
        else {
            return 0
        }
        X509_STORE_CTX_set_error(context, X509_V_OK)
        return 1
    }

    /// DER, the server's own first. One that cannot be encoded stays as no bytes, which nobody trusts.
    private static func presented(in context: OpaquePointer) -> [[UInt8]] {
        let all = X509_STORE_CTX_get0_untrusted(context)
        var chain: [OpaquePointer] = []
        for index in 0..<max(0, OPENSSL_sk_num(all)) {
            if let pointer = OPENSSL_sk_value(all, index) { chain.append(OpaquePointer(pointer)) }
        }
        if let server = X509_STORE_CTX_get0_cert(context), chain.first.map({ X509_cmp($0, server) != 0 }) ?? true {
            chain.insert(server, at: 0)
        }
        return chain.map { pointer in encoded { i2d_X509(pointer, $0) } ?? [] }
    }

    /// The server asks for a certificate: called after `judge` has let the handshake go on. See SSL_CTX_set_cert_cb(3).
    private static let showIdentity: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32 = {
        connection, _ in
        guard let connection, let handshake = handshake(of: connection) else { return 0 }
        handshake.noteRequestForIdentity()
        guard let keys = handshake.identity?.keys else { return 1 }
        defer { ERR_clear_error() }
        return SSL_use_cert_and_key(connection, keys.certificate, keys.key, keys.chain, 1)
    }
}
