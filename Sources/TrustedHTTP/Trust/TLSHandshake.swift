import Glibc
import Synchronization

/// One TLS handshake with a server: what it must show, what it has shown, and what was said of it.
///
/// Given to `LibSSL.prepare`, which lets the handshake go on only if the verdict allows it; until then no byte of a request
/// can be sent. Read by any thread.
package final class TLSHandshake: Sendable {
    package let trust: ServerTrust
    /// As in the URL.
    package let host: String
    package let port: Int
    package let identity: ClientIdentity?
    private let now: @Sendable () -> Int64

    private struct Seen {
        var chain: PresentedChain?
        var verdict: TrustVerdict?
        var askedForIdentity = false
        var version: String?
        var wasClosed = false
        var hasRefusedIdentity = false
    }
    private let seen = Mutex(Seen())

    /// - Parameters:
    ///   - identity: is shown if the server asks for one, after the verdict.
    ///   - now: seconds since 1970.
    package init(
        trust: ServerTrust, host: String, port: Int, identity: ClientIdentity? = nil,
        now: @escaping @Sendable () -> Int64 = { Int64(time(nil)) }
    ) {
        (self.trust, self.host, self.port, self.identity, self.now) = (trust, host, port, identity, now)
    }

    /// What the server has presented; nil before it has, and if it could not be read.
    package var chain: PresentedChain? { seen.withLock(\.chain) }
    /// nil as long as the server has presented nothing: then it was not trusted either.
    package var verdict: TrustVerdict? { seen.withLock(\.verdict) }
    /// Whether the server has asked for a certificate of the client, with one at hand or without.
    package var askedForIdentity: Bool { seen.withLock(\.askedForIdentity) }

    /// Of TLS, as "TLSv1.3"; nil if the handshake did not go through.
    var version: String? { seen.withLock(\.version) }
    /// Whether the server has ended the connection with TLS's closing words (RFC 8446 §6.1): nobody has cut it short.
    var wasClosed: Bool { seen.withLock(\.wasClosed) }

    /// Whether the server has ended the connection with a word about the client's certificate, or that there is none.
    var hasRefusedIdentity: Bool { seen.withLock(\.hasRefusedIdentity) }

    /// The server has presented these, DER, its own first.
    ///
    /// - Returns: whether the handshake may go on.
    func judge(_ presented: [[UInt8]]) -> Bool {
        let judged: Seen
        do throws(TrustError) {
            var certificates: [Certificate] = []
            for der in presented { certificates.append(try Certificate(der: der)) }
            let chain = PresentedChain(certificates: certificates, host: host, port: port)
            judged = Seen(chain: chain, verdict: trust.evaluate(chain, at: now(), roots: .system))
        } catch {
            judged = Seen(verdict: .evaluationFailed(.malformedCertificate(why: error.description)))
        }
        // A server may be asked again over the same TLS context; what counts is what it shows now.
        seen.withLock { ($0.chain, $0.verdict) = (judged.chain, judged.verdict) }
        return judged.verdict?.allowsConnection ?? false
    }

    func note(version: String) { seen.withLock { $0.version = version } }
    /// - Parameter alert: a fatal one of the server.
    func note(alert: Int32) {
        // handshake_failure, which TLS 1.2 says if there is none; those about certificates; access_denied, decrypt_error,
        // certificate_required (RFC 8446 §6.2).
        if [40, 42, 43, 44, 45, 46, 48, 49, 51, 116].contains(alert) {
            seen.withLock { $0.hasRefusedIdentity = $0.askedForIdentity }
        }
    }
    func noteClosing() { seen.withLock { $0.wasClosed = true } }
    func noteRequestForIdentity() { seen.withLock { $0.askedForIdentity = true } }
}
