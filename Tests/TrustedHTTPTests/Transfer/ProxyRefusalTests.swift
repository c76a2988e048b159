import FaultServer
import Foundation
import Testing
import TrustedHTTP

/// A proxy that answers CONNECT with 401 or 407: what is for the server behind it is not for the proxy, nor the other way round.
@Suite("Proxies that refuse a tunnel")
struct ProxyRefusalTests {
    let server: FaultServer
    let client = HTTPClient()

    init() throws {
        server = try FaultServer()
        try server.answer("/", Answer(length: 1000))
    }

    private var proxySpace: ProtectionSpace {
        ProtectionSpace(.proxy, host: "127.0.0.1", port: server.proxyPort, method: .basic)
    }
    private var space: ProtectionSpace { ProtectionSpace(host: "localhost", port: server.port) }

    /// Both are listed, and there are credentials for one of them, or both.
    private func request(_ known: ProtectionSpace...) async throws -> HTTPRequest {
        let store = SessionCredentials()
        for space in known {
            await store.keep(Credential(.password(user: "user", .text("correct horse"))), for: space)
        }
        var request = try server.request("/")
        request.proxy = HTTPProxy(.http, host: "127.0.0.1", port: server.proxyPort)
        request.authentication = HTTPAuthentication([proxySpace, space], credentials: store)
        return request
    }

    /// No credential has reached anybody.
    private func expectNothingSent() throws {
        for seen in try server.requests() {
            #expect(seen["Authorization"] == nil && seen["Proxy-Authorization"] == nil, "\(seen.method)")
        }
    }

    @Test(
        "401, which is no answer of a proxy: typed, and nothing is sent, in whichever field it asks",
        arguments: ["WWW-Authenticate", "Proxy-Authenticate"])
    func unauthorized(field: String) async throws {
        let challenge = [field, "Basic realm=\"test\""]
        try server.answer("localhost:\(server.port)", Answer(status: 401, "no", headers: [challenge]))
        guard case .proxyRefused(_, status: 401) = try await client.failure(request(proxySpace, space)) else {
            Issue.record("not refused")
            return
        }
        #expect(try server.requests().map(\.method) == ["CONNECT"])
        try expectNothingSent()
    }

    @Test("407 without a challenge for proxies: typed, and nothing is sent", arguments: [nil, "WWW-Authenticate"])
    func withoutChallenge(field: String?) async throws {
        let headers = field.map { [[$0, "Basic realm=\"test\""]] } ?? []
        try server.answer("localhost:\(server.port)", Answer(status: 407, "no", headers: headers))
        guard case .proxyRefused(_, status: 407) = try await client.failure(request(proxySpace, space)) else {
            Issue.record("not refused")
            return
        }
        try expectNothingSent()
    }

    @Test("407, and only the server's credential is known: the proxy does not get it")
    func serversCredential() async throws {
        try server.guardPaths("localhost", Scheme.basic("user", "correct horse").with(\.proxy, true))
        guard case .proxyRefused(_, status: 407) = try await client.failure(request(space)) else {
            Issue.record("not refused")
            return
        }
        #expect(try server.requests().allSatisfy { $0.method == "CONNECT" })
        try expectNothingSent()
    }

    @Test("407, and only the server is listed: the error names the proxy")
    func unlisted() async throws {
        try server.guardPaths("localhost", Scheme.basic("user", "correct horse").with(\.proxy, true))
        var request = try await request(space)
        request.authentication?.spaces = [space]
        guard case .spaceNotListed(let met, _) = try await client.failure(request) else {
            Issue.record("answered")
            return
        }
        #expect(met.kind == .proxy && met.port == server.proxyPort)
        try expectNothingSent()
    }

    @Test("401 of the server, and only the proxy's credential is known: the server does not get it")
    func proxysCredential() async throws {
        try server.guardPaths("/", .basic("user", "correct horse"))
        let (response, _) = try await client.send(request(proxySpace))
        #expect(response.status == 401)
        #expect(try server.requests().contains { $0.method == "GET" })
        try expectNothingSent()
    }

    @Test("A bearer token is for the server: the proxy neither sees it nor has one asked for", arguments: [401, 407])
    func tokens(status: Int) async throws {
        struct Token: BearerTokens {
            func token(for space: ProtectionSpace, rejected: Bool) -> CredentialSecret? { .text("planted-token") }
        }
        let challenge = [status == 401 ? "WWW-Authenticate" : "Proxy-Authenticate", "Bearer realm=\"test\""]
        try server.answer("localhost:\(server.port)", Answer(status: status, "no", headers: [challenge]))
        var request = try await request()
        request.authentication?.tokens = Token()
        let error = try await client.failure(request)
        switch error {
        case .proxyRefused(_, status: status), .authenticationUnsupported, .spaceNotListed: break
        default: Issue.record("\(error)")
        }
        try expectNothingSent()
        #expect(try !server.hasReceived("planted-token"))
    }
}
