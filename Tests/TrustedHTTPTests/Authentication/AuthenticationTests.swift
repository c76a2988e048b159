import FaultServer
import Foundation
import ProtectionKeys
import Synchronization
import Testing
import TrustedHTTP

/// Answers as it was told, and remembers what it was asked.
private final class Scripted: AuthenticationHandler {
    private let answers: Mutex<[AuthenticationDisposition]>
    private let seen = Mutex<[AuthenticationChallenge]>([])

    /// The last one stays.
    init(_ answers: AuthenticationDisposition...) { self.answers = Mutex(answers) }

    var asked: [AuthenticationChallenge] { seen.withLock { $0 } }

    func disposition(of challenge: AuthenticationChallenge) -> AuthenticationDisposition {
        seen.withLock { $0.append(challenge) }
        return answers.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] }
    }
}

private actor Tokens: BearerTokens {
    private var tokens: [String]
    private(set) var asked: [Bool] = []

    init(_ tokens: String...) { self.tokens = tokens }

    func token(for space: ProtectionSpace, rejected: Bool) -> CredentialSecret? {
        asked.append(rejected)
        return tokens.isEmpty ? nil : .text(tokens.removeFirst())
    }
}

@Suite("Authentication")
struct AuthenticationTests {
    let server: FaultServer
    let client = HTTPClient()
    let space: ProtectionSpace

    init() throws {
        server = try FaultServer()
        space = ProtectionSpace(host: "localhost", port: server.port)
        try server.answer("/", Answer(status: 200, "inside"))
    }

    private func request(_ authentication: HTTPAuthentication) throws -> HTTPRequest {
        var request = try server.request("/")
        request.authentication = authentication
        return request
    }

    private func password(_ user: String = "user", _ password: String = "correct horse") -> Credential {
        Credential(.password(user: user, .text(password)))
    }

    private func store(_ credential: Credential) async -> SessionCredentials {
        let store = SessionCredentials()
        await store.keep(credential, for: space)
        return store
    }

    /// No form of the password, nor of a digest with it.
    private func expectNothingSent() throws {
        for request in try server.requests() {
            #expect(request["Authorization"] == nil && request["Proxy-Authorization"] == nil)
        }
    }

    // MARK: methods, live

    @Test(
        "Each method, and the request goes out without credentials first",
        arguments: [
            (Scheme.basic("user", "correct horse"), 2), (.digest("user", "correct horse", "MD5"), 3),
            (.digest("user", "correct horse", "SHA-256"), 3), (.digest("user", "correct horse", "MD5-sess"), 3),
            (.digest("user", "correct horse", "SHA-256-sess"), 3),
            (.digest("user", "correct horse", "SHA-256").with(\.userhash, true), 3),
            (.ntlm("user", "correct horse"), 3),
        ])
    func methods(scheme: Scheme, count: Int) async throws {
        try server.guardPaths("/", scheme)
        let request = try request(HTTPAuthentication([space], credentials: await store(password())))
        let sink = Sink()
        let response = try await client.transfer(request, to: sink)
        #expect(response.status == 200 && sink.bytes == Array("inside".utf8) && sink.responses.count == 1)
        let seen = try server.requests()
        #expect(seen.count == count && seen[0]["Authorization"] == nil)
        #expect(try !server.hasReceived("correct horse"))
    }

    @Test("NTLM with a domain, and an upload that arrives once", arguments: ["ntlm", "digest"])
    func uploads(method: String) async throws {
        let isNTLM = method == "ntlm"
        try server.guardPaths(
            "/", isNTLM ? .ntlm("user", "correct horse", domain: "DOMAIN") : .digest("user", "correct horse"))
        let user = isNTLM ? "DOMAIN\\user" : "user"
        var request = try request(HTTPAuthentication([space], credentials: await store(password(user))))
        (request.method, request.body) = ("PUT", BytesToSend(Answer.pattern(0..<300_000)))
        #expect(try await client.send(request).response.status == 200)
        let last = try #require(server.requests().last)
        #expect(last.bodyCount == 300_000 && Array(last.body) == Answer.pattern(0..<65_536))
    }

    @Test("A connection that NTLM has authenticated serves no other request")
    func connectionsOfNTLM() async throws {
        try server.guardPaths("/", .ntlm("user", "correct horse"))
        let authentication = HTTPAuthentication([space], credentials: await store(password()))
        #expect(try await client.send(request(authentication)).response.status == 200)
        let first = try server.requests()
        #expect(try await client.send(server.request("/")).response.status == 401)
        #expect(try await client.send(request(authentication)).response.status == 200)
        let proved = first.filter { $0["Authorization"] != nil }.map(\.connection)
        #expect(Set(proved).count == 1)
        #expect(try server.requests().dropFirst(first.count).allSatisfy { !proved.contains($0.connection) })
    }

    @Test("A nonce that is too old is replaced")
    func staleNonce() async throws {
        try server.guardPaths("/", .digest("user", "correct horse").with(\.uses, 1))
        let authentication = HTTPAuthentication([space], credentials: await store(password()))
        for _ in 0..<3 { #expect(try await client.send(request(authentication)).response.status == 200) }
    }

    @Test("Of several methods the strongest")
    func strongest() async throws {
        try server.guardPaths(
            "/", .basic("user", "correct horse"), .ntlm("user", "correct horse"), .digest("user", "correct horse"))
        _ = try await client.send(request(HTTPAuthentication([space], credentials: await store(password()))))
        #expect(try server.requests().last?["Authorization"]?.hasPrefix("Digest ") == true)
    }

    @Test("Without authentication, a refusal is a response like any other")
    func none() async throws {
        try server.guardPaths("/", .basic("user", "correct horse"))
        let (response, body) = try await client.send(server.request("/"))
        #expect(response.status == 401 && body == Array("refused".utf8))
    }

    // MARK: spaces

    @Test("A space that is not listed is refused, with the nearest that is")
    func notListed() async throws {
        try server.guardPaths("/", .basic("user", "correct horse").with(\.realm, ["theirs"]))
        let entry = ProtectionSpace(host: "localhost", port: server.port, realm: "ours")
        let failure = try await client.failure(
            request(HTTPAuthentication([entry], credentials: await store(password()))))
        guard case .spaceNotListed(let met, let nearest) = failure else {
            Issue.record("\(failure)")
            return
        }
        #expect(met.realm == "theirs" && met.method == .basic && nearest == entry)
        try expectNothingSent()
    }

    @Test("A stand-by server, listed beside the first one")
    func standBy() async throws {
        let other = try server.listen("other", chain: ["server"])
        try server.guardPaths("/", .basic("user", "correct horse"))
        let second = ProtectionSpace(host: "localhost", port: other)
        let store = await store(password())
        await store.keep(password(), for: second)
        var request = try request(HTTPAuthentication([space, second], credentials: store))
        request.url = server.url("/", port: other)
        #expect(try await client.send(request).response.status == 200)
    }

    @Test("The realm changes while the answer is on its way: nothing of it is sent")
    func realmChanges() async throws {
        try server.guardPaths("/", .digest("user", "correct horse").with(\.realm, ["first", "second"]))
        let failure = try await client.failure(
            request(HTTPAuthentication([space], credentials: await store(password()))))
        guard case .spaceChanged(let chosen, let met?) = failure else {
            Issue.record("\(failure)")
            return
        }
        #expect(chosen.realm == "first" && met.realm == "second")
        try expectNothingSent()
    }

    @Test("Methods that nobody can do here are named, and nothing is sent")
    func unsupported() async throws {
        try server.guardPaths(
            "/", .other("Negotiate"), .other("Digest realm=\"x\", algorithm=SHA-512-256, nonce=\"n\""))
        let failure = try await client.failure(
            request(HTTPAuthentication([space], credentials: await store(password()))))
        guard case .authenticationUnsupported(["Negotiate", "Digest"], host: "localhost") = failure else {
            Issue.record("\(failure)")
            return
        }
        try expectNothingSent()
    }

    @Test("http:// is never answered")
    func plain() async throws {
        try server.guardPaths("/", .digest("user", "correct horse"))
        let entry = ProtectionSpace(.http, host: "localhost", port: server.plainPort)
        var request = try request(HTTPAuthentication([entry], handler: Scripted(.use(password()))))
        (request.url, request.allowsPlainHTTP) = (server.url("/", scheme: "http"), true)
        guard case .credentialsOverPlainHTTP = try await client.failure(request) else {
            Issue.record("answered")
            return
        }
        try expectNothingSent()
    }

    @Test("Another origin is asked for anew, and gets nothing that is not meant for it")
    func acrossOrigins() async throws {
        let other = try server.listen("other", chain: ["server"])
        try server.guardPaths("/", .basic("user", "correct horse"))
        try server.answer("/", .redirect(to: server.url("/there", port: other).absoluteString))
        let failure = try await client.failure(
            request(HTTPAuthentication([space], credentials: await store(password()))))
        guard case .spaceNotListed(let met, space) = failure else {
            Issue.record("\(failure)")
            return
        }
        #expect(met.port == other)
        #expect(try server.requests().filter { $0.listener == "other" }.allSatisfy { $0["Authorization"] == nil })
    }

    // MARK: what fails

    @Test("A credential that was refused is not sent again, until it is replaced")
    func refusedOnce() async throws {
        try server.guardPaths("/", .basic("user", "correct horse"))
        let (store, failures) = (await store(password("user", "wrong")), try SessionFailures())
        let authentication = HTTPAuthentication([space], credentials: store, failures: failures)
        for round in 1...3 {
            // As if the process had started again: what lasts is the store of failures alone.
            guard case .credentialRefused(let refused) = try await HTTPClient().failure(request(authentication)) else {
                Issue.record("not refused")
                return
            }
            #expect(refused.realm == "test")
            #expect(try server.requests().count { $0["Authorization"] != nil } == 1, "round \(round)")
        }
        await store.keep(password(), for: space)
        #expect(try await client.send(request(authentication)).response.status == 200)
    }

    @Test("Refused by Digest and NTLM, too", arguments: [Scheme.digest("user", "right"), .ntlm("user", "right")])
    func refusedOtherwise(scheme: Scheme) async throws {
        try server.guardPaths("/", scheme)
        let authentication = HTTPAuthentication([space], credentials: await store(password("user", "wrong")))
        for _ in 1...2 {
            guard case .credentialRefused = try await client.failure(request(authentication)) else {
                Issue.record("not refused")
                return
            }
        }
        let sent = try server.requests().count { $0["Authorization"] != nil }
        #expect(sent == (scheme.scheme == "ntlm" ? 2 : 1))
    }

    @Test("A credential that HTTP cannot carry", arguments: [("a:b", "p"), ("a\0", "p"), ("a", "p\0q"), ("a\n", "p")])
    func malformed(user: String, secret: String) async throws {
        try server.guardPaths("/", .basic("user", "correct horse"))
        let failure = try await client.failure(
            request(HTTPAuthentication([space], credentials: await store(password(user, secret)))))
        guard case .malformedCredential = failure else {
            Issue.record("\(failure)")
            return
        }
        try expectNothingSent()
    }

    // MARK: the handler

    @Test("A handler gets space, count, proposal and trust; its credential is kept for the session")
    func use() async throws {
        try server.guardPaths("/", .basic("user", "correct horse"))
        let store = await store(password("user", "old"))
        let handler = Scripted(.performDefault, .use(password("user", "wrong")), .use(password()))
        let authentication = HTTPAuthentication([space], credentials: store, handler: handler)
        #expect(try await client.send(request(authentication)).response.status == 200)
        #expect(handler.asked.map(\.previousFailureCount) == [0, 1, 2])
        #expect(handler.asked.map { $0.proposedCredential != nil } == [true, false, false])
        let first = try #require(handler.asked.first)
        #expect(first.space == ProtectionSpace(host: "localhost", port: server.port, realm: "test", method: .basic))
        #expect(first.server?.verdict.allowsConnection == true && first.server?.chain.certificates.count == 1)
        #expect(try await client.send(request(HTTPAuthentication([space], credentials: store))).response.status == 200)
    }

    @Test("With persistence none it is not kept")
    func persistence() async throws {
        try server.guardPaths("/", .basic("user", "correct horse"))
        let store = SessionCredentials()
        let credential = Credential(.password(user: "user", .text("correct horse")), persistence: .none)
        _ = try await client.send(
            request(HTTPAuthentication([space], credentials: store, handler: Scripted(.use(credential)))))
        // Asked for as it was met: an entry with a realm is not for a space without.
        let met = ProtectionSpace(host: "localhost", port: server.port, realm: "test", method: .basic)
        #expect(await store.credential(for: met) == nil)
    }

    @Test("Cancel, reject, go on without, and the default without a credential")
    func dispositions() async throws {
        try server.guardPaths("/", .basic("user", "correct horse"), .digest("user", "correct horse"))
        func handled(_ handler: Scripted) throws -> HTTPRequest {
            try request(HTTPAuthentication([space], handler: handler))
        }
        guard case .authenticationCancelled = try await client.failure(handled(Scripted(.cancel))) else {
            Issue.record("not cancelled")
            return
        }
        guard case .spaceRejected = try await client.failure(handled(Scripted(.rejectSpace))) else {
            Issue.record("not rejected")
            return
        }
        #expect(try await client.send(handled(Scripted(.continueWithout))).response.status == 401)
        #expect(try await client.send(handled(Scripted(.performDefault))).response.status == 401)
        try expectNothingSent()
        let second = Scripted(.rejectSpace, .use(password()))
        #expect(try await client.send(handled(second)).response.status == 200)
        #expect(second.asked.map(\.space.method) == [.digest, .basic])
    }

    @Test("A handler that is always wrong is not asked without end")
    func endless() async throws {
        try server.guardPaths("/", .basic("user", "correct horse"))
        final class Guessing: AuthenticationHandler {
            func disposition(of challenge: AuthenticationChallenge) -> AuthenticationDisposition {
                .use(Credential(.password(user: "user", .text("guess \(challenge.previousFailureCount)"))))
            }
        }
        guard
            case .credentialRefused = try await client.failure(
                request(HTTPAuthentication([space], handler: Guessing())))
        else {
            Issue.record("not refused")
            return
        }
        #expect(try server.requests().count < 20)
    }

    @Test("A server that thinks of a new realm each time is not answered without end")
    func endlessRealms() async throws {
        try server.guardPaths("/", .basic("user", "correct horse").with(\.realm, (0..<50).map { "realm \($0)" }))
        let failure = try await client.failure(
            request(HTTPAuthentication([space], credentials: await store(password("user", "wrong")))))
        guard case .credentialRefused = failure else {
            Issue.record("\(failure)")
            return
        }
        #expect(try server.requests().count < 30)
    }

    @Test("A store that forgets what was refused makes nobody send it twice")
    func forgetful() async throws {
        struct Forgetful: FailedCredentials {
            func mark(_ bytes: borrowing SecretBytes) -> [UInt8] { [] }
            func contains(_ mark: [UInt8]) -> Bool { false }
            func insert(_ mark: [UInt8], of credential: [UInt8]) {}
        }
        try server.guardPaths("/", .basic("user", "correct horse"))
        let credentials = await store(password("user", "wrong"))
        let failure = try await client.failure(
            request(HTTPAuthentication([space], credentials: credentials, failures: Forgetful())))
        guard case .credentialRefused = failure else {
            Issue.record("\(failure)")
            return
        }
        #expect(try server.requests().count { $0["Authorization"] != nil } == 1)
    }

    // MARK: tokens

    @Test("A token goes along at once, and its provider is asked once more")
    func tokens() async throws {
        try server.guardPaths("/", .bearer("new"))
        let tokens = Tokens("old", "new")
        #expect(try await client.send(request(HTTPAuthentication([space], tokens: tokens))).response.status == 200)
        #expect(try server.requests().map { $0["Authorization"] } == ["Bearer old", "Bearer new"])
        #expect(await tokens.asked == [false, true])
        guard
            case .credentialRefused = try await client.failure(
                request(HTTPAuthentication([space], tokens: Tokens("a", "b", "c"))))
        else {
            Issue.record("not refused")
            return
        }
        #expect(try server.requests().count == 4)
    }

    @Test("A token is for listed servers alone")
    func tokensElsewhere() async throws {
        let other = ProtectionSpace(host: "example.org", port: 443)
        #expect(
            try await client.send(request(HTTPAuthentication([other], tokens: Tokens("secret")))).response.status == 200
        )
        try expectNothingSent()
    }
}
