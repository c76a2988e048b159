import CLibSSL

extension LibSSL {
    /// What the server of an established connection has shown, judged anew. The C call is `SSL_get_peer_cert_chain`.
    ///
    /// - Parameter handshake: of a connection to the same server; says whom to trust.
    static func shown(by connection: OpaquePointer, for handshake: TLSHandshake) -> ServerIdentity? {
        let all = SSL_get_peer_cert_chain(connection)
        let presented = (0..<max(0, OPENSSL_sk_num(all))).map { index in
            OPENSSL_sk_value(all, index).flatMap { pointer in encoded { i2d_X509(OpaquePointer(pointer), $0) } } ?? []
        }
        let again = TLSHandshake(trust: handshake.trust, host: handshake.host, port: handshake.port)
        _ = again.judge(presented)
        guard let chain = again.chain, let verdict = again.verdict else { return nil }
        return ServerIdentity(chain: chain, verdict: verdict)
    }
}
