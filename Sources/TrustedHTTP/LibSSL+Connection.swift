import CLibSSL

extension LibSSL {
    /// For a context that `prepare` was called for: notes TLS's closing words, and refuses to begin anew with other certificates.
    ///
    /// libcurl 7.88 takes a connection that was cut for one that has ended. The C calls are `SSL_CTX_set_info_callback` and
    /// `SSL_CTX_set_options`.
    static func watchEnd(of context: OpaquePointer) {
        // SSL_OP_NO_RENEGOTIATION, a macro that Swift does not see.
        SSL_CTX_set_options(context, 1 << 30)
        SSL_CTX_set_info_callback(context) { connection, place, alert in
            // The level of the alert is in the upper byte, what it says in the lower one.
            guard place == SSL_CB_READ_ALERT, alert & 0xFF == SSL3_AD_CLOSE_NOTIFY, let connection else { return }
            LibSSL.handshake(of: connection)?.noteClosing()
        }
    }
}
