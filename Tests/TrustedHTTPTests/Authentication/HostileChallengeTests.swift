import FaultServer
import Foundation
import ProtectionKeys
import Testing
import TrustedHTTP

/// Challenges that we and libcurl, which answers them, could read differently: what libcurl would answer must be what was
/// decided on.
@Suite("Hostile challenges")
struct HostileChallengeTests {
    let server: FaultServer
    let client = HTTPClient()
    let space: ProtectionSpace

    private static let fair = #"Digest realm="ours", nonce="n", qop="auth", algorithm=SHA-256"#

    init() throws {
        server = try FaultServer()
        space = ProtectionSpace(host: "localhost", port: server.port, realm: "ours", method: .digest)
    }

    /// A refusal with this line in its head, and more lines behind it.
    private func refusal(_ challenge: String?) -> Answer {
        let line = challenge.map { "WWW-Authenticate: \($0)\r\n" } ?? ""
        let head = "HTTP/1.1 401 No\r\n\(line)Content-Length: 0\r\nConnection: close\r\n\r\n"
        return Answer(status: 401).with(\.raw, Data(head.utf8))
    }

    private func request(_ other: ProtectionSpace? = nil) async throws -> HTTPRequest {
        let (store, space) = (SessionCredentials(), other ?? space)
        await store.keep(Credential(.password(user: "user", .text("correct horse"))), for: space)
        var request = try server.request("/")
        request.authentication = HTTPAuthentication(
            [space], credentials: store, failures: try SessionFailures())
        return request
    }

    @Test(
        "Nothing is answered for another realm than the one that is listed",
        arguments: [
            // Twice in one challenge: who counts the last one?
            #"Digest realm="ours", nonce="n", qop="auth", algorithm=SHA-256, realm="theirs""#,
            // In the string of another challenge: who looks for commas only?
            #"Basic realm="a, Digest realm=theirs, nonce=n, qop=auth, algorithm=SHA-256, ""#,
            // Behind the next challenge: whose parameter is it?
            #"Digest realm="ours", nonce="n", qop="auth", algorithm=SHA-256, Basic realm="ours", realm="theirs""#,
            #"Digest realm="ours", nonce="n", algorithm=SHA-256, Digest x=y, realm="theirs", nonce="m""#,
            // Without quotes: where does the value end?
            #"Digest realm=ours and theirs, nonce="n", qop="auth", algorithm=SHA-256"#,
            // With spaces around the sign.
            #"Digest nonce="n", qop="auth", algorithm=SHA-256, realm = "ours""#,
            #"Digest nonce="n", qop="auth", algorithm=SHA-256, realm= "ours""#,
            // With what is escaped, or has no end.
            #"Digest realm="ou\rs", nonce="n", qop="auth", algorithm=SHA-256"#,
            #"Digest nonce="n", qop="auth", algorithm=SHA-256, realm="ours"#,
            // A second head in the first one.
            "Digest realm=\"theirs\", nonce=\"n\", algorithm=SHA-256\r\nHTTP/1.1 200 OK: x",
            "\(fair)\r\nHTTP/1.1 200 OK: x\r\nWWW-Authenticate: Digest realm=\"theirs\", nonce=\"n\"",
            // A line that is folded.
            "Digest nonce=\"n\", algorithm=SHA-256\r\n , realm=\"ours\"",
        ], [false, true])
    func otherRealm(challenge: String, isSecond: Bool) async throws {
        let first = refusal(isSecond ? Self.fair : challenge)
        try server.answer("/", first, refusal(challenge), refusal(nil))
        _ = try? await client.send(request())
        for seen in try server.requests() {
            let sent = seen["Authorization"]
            #expect(sent?.contains(#"realm="ours""#) ?? true, "\(sent ?? "")")
        }
    }

    @Test("A server that finds every nonce too old is not answered without end")
    func alwaysStale() async throws {
        let stale = refusal(Self.fair + ", stale=true")
        try server.answer("/", stale, stale, stale, stale, stale, stale, stale, stale, stale, Answer(status: 200))
        guard case .credentialRefused = try await client.failure(request()) else {
            Issue.record("not refused")
            return
        }
        #expect(try server.requests().count < 8)
    }

    @Test("A refusal that says nothing more is one: the credential is not sent again")
    func withoutChallenge() async throws {
        let asking = refusal(#"Basic realm="ours""#)
        try server.answer("/", asking, refusal(nil), asking, Answer(status: 200))
        let basic = ProtectionSpace(host: "localhost", port: server.port, realm: "ours", method: .basic)
        let request = try await request(basic)
        #expect(try await client.send(request).response.status == 401)
        guard case .credentialRefused = try await client.failure(request) else {
            Issue.record("not refused")
            return
        }
        #expect(try server.requests().count { $0["Authorization"] != nil } == 1)
    }
}
