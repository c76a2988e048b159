import CLibSSL
import Synchronization
import TestCertificates

@testable import TrustedHTTP

/// A TLS client and a TLS server that talk through two buffers in this process, step by step.
final class TLSPair {
    private let contexts: (client: OpaquePointer, server: OpaquePointer)
    private let client: OpaquePointer
    private let server: OpaquePointer
    /// What the server has decrypted.
    private(set) var received: [UInt8] = []
    private(set) var clientIsDone = false
    private(set) var serverIsDone = false
    private(set) var clientHasFailed = false

    /// Of all clients.
    static let sessionsToResume = Atomic(0)

    struct Failure: Error { let call: String }

    /// - Parameters:
    ///   - names: what the server presents, its own first.
    ///   - asksForIdentity: of the client, which must have one then.
    ///   - version: `TLS1_2_VERSION` and the like, if only that one may be spoken by the server.
    init(
        server names: [String], handshake: TLSHandshake, asksForIdentity: Bool = false, version: Int32? = nil
    ) throws {
        contexts = (SSL_CTX_new(TLS_client_method()), SSL_CTX_new(TLS_server_method()))
        // As libcurl does before it asks us: it wants every session, to resume it later.
        SSL_CTX_ctrl(contexts.client, SSL_CTRL_SET_SESS_CACHE_MODE, Int(SSL_SESS_CACHE_CLIENT), nil)
        SSL_CTX_sess_set_new_cb(contexts.client) { _, _ in
            TLSPair.sessionsToResume.add(1, ordering: .relaxed)
            return 0
        }
        try LibSSL.prepare(contexts.client, for: handshake)
        // What a weak certificate is refused for is the client's business here.
        SSL_CTX_set_security_level(contexts.server, 0)
        if let version {
            SSL_CTX_ctrl(contexts.server, SSL_CTRL_SET_MIN_PROTO_VERSION, Int(version), nil)
            SSL_CTX_ctrl(contexts.server, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(version), nil)
        }
        (client, server) = (SSL_new(contexts.client), SSL_new(contexts.server))
        for (index, name) in names.enumerated() {
            let certificate = try Certificate.named(name)
            defer { withExtendedLifetime(certificate) {} }
            if index == 0 {
                SSL_use_certificate(server, certificate.parsed.pointer)
                let key = TestCertificates.key(name)
                let parsed = key.withUnsafeBufferPointer { bytes in
                    var next = bytes.baseAddress
                    return d2i_AutoPrivateKey(nil, &next, bytes.count)
                }
                defer { EVP_PKEY_free(parsed) }
                guard SSL_use_PrivateKey(server, parsed) == 1 else { throw Failure(call: "SSL_use_PrivateKey") }
            } else {
                // SSL_add1_chain_cert
                SSL_ctrl(server, SSL_CTRL_CHAIN_CERT, 1, UnsafeMutableRawPointer(certificate.parsed.pointer))
            }
        }
        if asksForIdentity {
            SSL_set_verify(server, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT) { _, _ in 1 }
        }
        var (near, far): (OpaquePointer?, OpaquePointer?)
        guard BIO_new_bio_pair(&near, 1 << 17, &far, 1 << 17) == 1 else { throw Failure(call: "BIO_new_bio_pair") }
        SSL_set_bio(client, near, near)
        SSL_set_bio(server, far, far)
        SSL_set_connect_state(client)
        SSL_set_accept_state(server)
    }

    deinit {
        SSL_free(client)
        SSL_free(server)
        SSL_CTX_free(contexts.client)
        SSL_CTX_free(contexts.server)
    }

    /// Lets both take turns; the client sends `request` as soon as its own side of the handshake is done.
    func run(sending request: String) {
        var sent = false
        for _ in 0..<20 {
            if !clientIsDone && !clientHasFailed {
                step(client, SSL_connect(client), &clientIsDone, failed: &clientHasFailed)
            }
            // A careless client: it does not look whether the handshake has failed.
            if (clientIsDone || clientHasFailed) && !sent {
                sent = SSL_write(client, request, Int32(request.utf8.count)) > 0
            }
            var serverHasFailed = false
            if !serverIsDone { step(server, SSL_accept(server), &serverIsDone, failed: &serverHasFailed) }
            var buffer = [UInt8](repeating: 0, count: 1024)
            let count = SSL_read(server, &buffer, 1024)
            if count > 0 { received += buffer.prefix(Int(count)) }
            ERR_clear_error()
        }
    }

    /// The certificate that the client has shown to the server.
    var identityShown: Certificate? {
        guard let shown = SSL_get1_peer_certificate(server) else { return nil }
        defer { X509_free(shown) }
        return LibSSL.encoded { i2d_X509(shown, $0) }.flatMap { try? Certificate(der: $0) }
    }

    /// What libssl says of the verification on the client's side; libcurl looks at it.
    var verifyResult: Int { SSL_get_verify_result(client) }

    private func step(_ side: OpaquePointer, _ result: Int32, _ done: inout Bool, failed: inout Bool) {
        done = result == 1
        failed = !done && ![SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE].contains(SSL_get_error(side, result))
        ERR_clear_error()
    }
}
