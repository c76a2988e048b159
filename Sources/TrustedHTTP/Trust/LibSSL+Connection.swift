import CLibSSL

extension LibSSL {
    /// For a context that `prepare` was called for: notes how far connections come, and never lets one begin anew with other
    /// certificates.
    ///
    /// TLS's closing words are noted because libcurl 7.88 takes a connection that was cut for one that has ended. The C calls
    /// are `SSL_CTX_set_info_callback` and `SSL_CTX_set_options`.
    static func watch(_ context: OpaquePointer) {
        // SSL_OP_NO_RENEGOTIATION, a macro that Swift does not see.
        SSL_CTX_set_options(context, 1 << 30)
        SSL_CTX_set_info_callback(context) { connection, place, alert in
            guard let connection, let handshake = LibSSL.handshake(of: connection) else { return }
            if place == SSL_CB_HANDSHAKE_DONE {
                handshake.note(version: SSL_get_version(connection).map { String(cString: $0) } ?? "")
            }
            // The level of the alert is in the upper byte, what it says in the lower one.
            guard place == SSL_CB_READ_ALERT else { return }
            if alert & 0xFF == SSL3_AD_CLOSE_NOTIFY { handshake.noteClosing() }
            if alert >> 8 == SSL3_AL_FATAL { handshake.note(alert: alert & 0xFF) }
        }
    }
}
