import FaultServer
import Foundation
import ProtectionKeys
import Synchronization
import Testing

@testable import DataProtection
@testable import ProtectionDownloads
@testable import ProtectionSecrets

/// Credentials of the list, against a real server.
@Suite struct CredentialTests {
    private let server: FaultServer
    private let bed: DownloadBed
    private let bytes = Answer.pattern(0..<100_000)

    init() throws {
        (server, bed) = (try FaultServer(), try DownloadBed())
        try server.answer("/file", Answer(length: 100_000))
    }

    private func request(_ credentials: DownloadCredential..., as name: String = "file") throws -> DownloadRequest {
        var request = try bed.request(server, as: name)
        request.credentials = credentials
        return request
    }

    private func queue() throws -> DownloadQueue { try DownloadQueue(bed.keybag) }

    private func expectFinished(_ download: Download) throws {
        #expect(download.state == .finished, "\(String(describing: download.failure))")
        #expect(try bed.contents() == bytes)
    }

    // MARK: given with a request, and kept for all

    @Test("A credential given with a download is used by any process that runs it, and gone when it is over")
    func given() async throws {
        try server.guardPaths("/", .digest("user", "right"))
        let download = try await bed.run(request(.password("user", "right", at: server)))
        try expectFinished(download)
        #expect(try bed.keptCredentials == 0)
        let cancelled = try await queue().add(request(.password("user", "right", at: server), as: "cancelled"))
        #expect(try bed.keptCredentials == 1)
        try await queue().cancel(cancelled.id)
        #expect(try bed.keptCredentials == 0)
    }

    @Test("A credential kept for all downloads is used for each, and survives restarts")
    func kept() async throws {
        try server.guardPaths("/", .ntlm("user", "right"))
        try await queue().addCredential(.password("user", "right", at: server))
        try expectFinished(await bed.run(request()))
        #expect(try await bed.run(request(as: "second")).state == .finished)
        let listed = try await queue().credentials()
        #expect(listed.map(\.name) == ["user"] && listed.map(\.kind) == [.password])
        #expect(try await queue().removeCredentials(of: listed[0].space, name: "another").isEmpty)
        #expect(try await queue().removeCredentials(of: listed[0].space) == listed)
        #expect(try await bed.run(request(as: "third")).failure?.kind == .credentials)
    }

    @Test("One that was damaged or altered harms no other one, and is counted")
    func damaged() async throws {
        try server.guardPaths("/", .basic("user", "right"))
        let identity = try DownloadCredential(identity(), for: ProtectionSpace(host: "localhost", port: 1))
        for credential in [
            try .password("other", "right", at: server, realm: "theirs"), identity,
            try .password("user", "right", at: server),
        ] {
            try await queue().addCredential(credential)
        }
        #expect(try await queue().damagedCredentials() == 0)
        let store = try SecretStore(appID: DownloadStore.appID, keybag: bed.keybag)
        try store.write { try $0.execute(sql: "UPDATE secrets SET wrapped = x'00' WHERE account = 'other'") }
        try store.write { try $0.execute(sql: "UPDATE secrets SET wrapped = zeroblob(40) WHERE kind = 3") }
        try expectFinished(await bed.run(request()))
        #expect(try await queue().damagedCredentials() == 1)
        #expect(try await queue().credentials().map(\.kind) == [.identity, .password])
        try store.write { try $0.execute(sql: "UPDATE secrets SET wrapped = zeroblob(40)  WHERE account = 'user'") }
        #expect(try await bed.run(request(as: "second")).state != .finished)
        #expect(try await queue().removeCredentials(of: identity.space).count == 1)
        #expect(try store.deleteDamaged() == 1)
    }

    @Test("A credential of another realm, method or host is not sent; the error names what was met and what is nearest")
    func unlisted() async throws {
        try server.guardPaths("/", .basic("user", "right").with(\.realm, ["theirs"]))
        try await queue().addCredential(.password("user", "right", at: server, realm: "ours"))
        try await queue().addCredential(.password("user", "right", at: server, method: .digest))
        try await queue().addCredential(
            DownloadCredential(.password(user: "user", .text("right")), for: ProtectionSpace(host: "h.test", port: 1)))
        let download = try await bed.run(request())
        #expect(download.failure?.kind == .credentials)
        let words = download.failure?.message ?? ""
        #expect(words.contains("realm \"theirs\", basic") && words.contains("the nearest is https://localhost"))
        #expect(try server.authorizations.isEmpty)
    }

    @Test("Nothing of it can be read in the keybag's directory", arguments: [false, true])
    func sealed(isWithRequest: Bool) async throws {
        let space = ProtectionSpace(host: "planted-host.test", port: 443, realm: "planted-realm")
        let credential = try DownloadCredential(
            .password(user: "planted-user", .text("planted-password")), for: space)
        let token = try DownloadCredential(.token(.text("planted-token")), for: space)
        let queue = try queue()
        if isWithRequest {
            _ = try await queue.add(request(credential, token))
        } else {
            for each in [credential, token] { try await queue.addCredential(each) }
        }
        let directory = queue.store.directory.string
        for name in try FileManager.default.contentsOfDirectory(atPath: directory) {
            let stored = FileManager.default.contents(atPath: "\(directory)/\(name)") ?? Data()
            #expect(stored.range(of: Data("planted-".utf8)) == nil, "\(name)")
        }
    }

    @Test("A credential kept for all downloads is a secret of the user, found by its name")
    func amongSecrets() async throws {
        let secrets = try SecretStore(appID: "protectfs.downloads", keybag: bed.keybag)
        try await queue().addCredential(.password("user", "right", at: server, realm: "test", method: .digest))
        try await queue().addCredential(.password("other", "right", at: server, realm: "test", method: .digest))
        let place = SecretServer("https+digest", host: "localhost", port: server.port, realm: "test")
        #expect(try secrets.find().records.map(\.name) == [.internetPassword(place, account: "other")])
        #expect(try secrets.find().records.map(\.accessibility) == [.afterFirstUnlock])
        try await queue().addCredential(.token("a token", at: server))
        let listed = try await queue().credentials()
        #expect(listed.map(\.kind) == [.password, .token])
        #expect(try bed.keptCredentials == 0)
        let id = try await queue().add(request()).id
        #expect(try queue().store.credentials(of: id).count == 2)
        #expect(try await queue().removeCredentials(of: listed[1].space).count == 1)
        #expect(try secrets.find().records.count == 1)
    }

    @Test("A lost key is reported: no new key is made for a list that holds credentials")
    func lostKey() async throws {
        let id = try await queue().add(request(.password("user", "right", at: server))).id
        try FileManager.default.removeItem(atPath: queue().store.directory.appending("key").string)
        let error = #expect(throws: DownloadError.self) { try queue().store.credentials(of: id) }
        guard case .storeKeyLost? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    // MARK: refused

    @Test("A refused credential is not sent again until replaced, even after a restart or for another download")
    func refused() async throws {
        try server.guardPaths("/", .basic("user", "right"))
        let first = try await bed.run(request(.password("user", "wrong", at: server)))
        #expect(first.failure?.kind == .credentials)
        #expect(try await bed.again(first.id).failure?.kind == .credentials)
        let second = try await bed.run(request(.password("user", "wrong", at: server), as: "second"))
        #expect(second.failure?.message.contains("refused") == true)
        #expect(try server.authorizations.count == 1)
        try await queue().setCredentials([.password("user", "right", at: server)], of: first.id)
        try expectFinished(await bed.again(first.id))
        #expect(try server.authorizations.count == 2)
    }

    @Test("Another one that fits is used in place of a refused one")
    func another() async throws {
        try server.guardPaths("/", .basic("user", "right"))
        let download = try await bed.run(request(.password("user", "wrong", at: server)))
        try await queue().addCredential(.password("user", "right", at: server))
        try expectFinished(await bed.again(download.id))
    }

    @Test("Given again by a person, the same is tried again; others that were refused are not")
    func givenAgain() async throws {
        try server.guardPaths("/", .basic("user", "late"))
        for name in ["late-not-yet", "other"] {
            try await queue().addCredential(.password(name, "late", at: server, realm: name == "other" ? nil : "test"))
        }
        // A request tries one, the next request another.
        let download = try await bed.run(request())
        #expect(try await bed.again(download.id).failure?.kind == .credentials)
        let before = try server.authorizations.count
        try server.guardPaths("/", .basic("late-not-yet", "late"))
        #expect(try await bed.again(download.id).failure?.kind == .credentials)
        #expect(try server.authorizations.count == before)
        try await queue().addCredential(.password("late-not-yet", "late", at: server, realm: "test"))
        try expectFinished(await bed.again(download.id))
        #expect(try server.authorizations.count == before + 1)
    }

    // MARK: other servers

    @Test(
        "Along a redirect each server gets its own, and one that has no entry gets nothing", arguments: [true, false])
    func standBy(isListed: Bool) async throws {
        let standBy = try FaultServer()
        try server.guardPaths("/", .basic("user", "of the first"))
        try server.answer("/file", .redirect(to: standBy.url("/file").absoluteString))
        try standBy.guardPaths("/", .basic("user", "of the second"))
        try standBy.answer("/file", Answer(length: 100_000))
        try await queue().addCredential(.password("user", "of the first", at: server))
        if isListed { try await queue().addCredential(.password("user", "of the second", at: standBy)) }
        var request = try request()
        request.trust = try ServerTrust(
            anchors: .only(try [server, standBy].flatMap { try Certificate.all(from: Array($0.authority)) }))
        let download = try await bed.run(request)
        let second = "Basic " + Data("user:of the second".utf8).base64EncodedString()
        #expect(try standBy.authorizations == (isListed ? [second] : []))
        if isListed { return try expectFinished(download) }
        #expect(download.failure?.message.contains("the nearest is https://localhost:\(server.port)") == true)
    }

    // MARK: the application's answers

    private struct Says: AuthenticationHandler {
        let answer: @Sendable (AuthenticationChallenge) -> AuthenticationDisposition
        func disposition(of challenge: AuthenticationChallenge) -> AuthenticationDisposition { answer(challenge) }
    }

    private func password(_ persistence: Credential.Persistence = .session) -> Credential {
        Credential(.password(user: "user", .text("right")), persistence: persistence)
    }

    private func connections(_ answer: @escaping @Sendable (AuthenticationChallenge) -> AuthenticationDisposition)
        -> DownloadConnections
    {
        var connections = DownloadConnections()
        connections.handler = Says(answer: answer)
        return connections
    }

    @Test("Each disposition of a handler", arguments: ["use", "performDefault", "cancel", "continueWithout", "reject"])
    func dispositions(name: String) async throws {
        try server.guardPaths("/", .basic("user", "right"))
        var request = try request()
        request.spaces = [ProtectionSpace(host: "localhost", port: server.port)]
        if name != "use" { try await queue().addCredential(.password("user", "right", at: server)) }
        let answers: [String: AuthenticationDisposition] = [
            "use": .use(password()), "performDefault": .performDefault, "cancel": .cancel,
            "continueWithout": .continueWithout, "reject": .rejectSpace,
        ]
        let answer = try #require(answers[name])
        let download = try await bed.run(request, connections { _ in answer })
        if ["use", "performDefault"].contains(name) { return try expectFinished(download) }
        #expect(download.failure?.kind == .credentials)
        #expect(try server.authorizations.isEmpty)
        let words = ["cancel": "cancelled", "continueWithout": "401", "reject": "rejected"][name] ?? "?"
        #expect(download.failure?.message.contains(words) == true, "\(String(describing: download.failure))")
    }

    @Test(
        "A handler's credential is not kept, kept for the process, or kept in the list",
        arguments: Credential.Persistence.allCases)
    func persistence(_ persistence: Credential.Persistence) async throws {
        try server.guardPaths("/", .basic("user", "right"))
        let wasProposed = Mutex<[Bool]>([])
        let credential = password(persistence)
        let connections = connections { challenge in
            wasProposed.withLock { $0.append(challenge.proposedCredential != nil) }
            return challenge.proposedCredential == nil ? .use(credential) : .performDefault
        }
        let queue = try DownloadQueue(bed.keybag, connections: connections)
        for name in ["file", "second"] {
            var request = try request(as: name)
            request.spaces = [ProtectionSpace(host: "localhost", port: server.port)]
            let download = try await queue.add(request)
            try await queue.run(untilIdle: true)
            #expect(try await queue.download(download.id).state == .finished)
        }
        #expect(wasProposed.withLock { $0 } == [false, persistence != .none])
        #expect(try await self.queue().credentials().map(\.name) == (persistence == .permanent ? ["user"] : []))
    }

    // MARK: tokens

    private actor Tokens: BearerTokens {
        private var tokens = ["old", "new"]
        private(set) var asked: [Bool] = []
        func token(for space: ProtectionSpace, rejected: Bool) -> CredentialSecret? {
            asked.append(rejected)
            return tokens.isEmpty ? nil : .text(tokens.removeFirst())
        }
    }

    @Test("The provider of tokens is asked once more when one is refused")
    func provider() async throws {
        try server.guardPaths("/", .bearer("new"))
        var (request, connections) = (try request(), DownloadConnections())
        request.spaces = [ProtectionSpace(host: "localhost", port: server.port, method: .bearer)]
        let tokens = Tokens()
        connections.tokens = tokens
        try expectFinished(await bed.run(request, connections))
        #expect(await tokens.asked == [false, true])
        #expect(try server.authorizations == ["Bearer old", "Bearer new"])
    }

    @Test("The provider's tokens go to no server that the request does not list itself")
    func providerOfOthers() async throws {
        try server.guardPaths("/", .bearer("new"), .basic("user", "right"))
        try await queue().addCredential(.password("user", "right", at: server))
        var (request, connections) = (try request(), DownloadConnections())
        request.spaces = [ProtectionSpace(host: "h.test", port: server.port)]
        let tokens = Tokens()
        connections.tokens = tokens
        try expectFinished(await bed.run(request, connections))
        #expect(await tokens.asked.isEmpty)
    }

    @Test("A kept token is sent at once; one that was refused is never sent again")
    func keptTokens() async throws {
        try server.guardPaths("/", .bearer("new"))
        try await queue().addCredential(.token("new", at: server))
        try expectFinished(await bed.run(request(.token("old", at: server))))
        #expect(try server.authorizations == ["Bearer old", "Bearer new"])
        #expect(try await bed.run(request(.token("old", at: server), as: "second")).state == .finished)
        #expect(try server.authorizations == ["Bearer old", "Bearer new", "Bearer new"])
        // Two that are refused, then the only one: after a restart nothing is sent.
        try server.guardPaths("/", .bearer("newest"))
        try await queue().addCredential(.token("fourth", at: server))
        let both = try await bed.run(request(.token("third", at: server), as: "both"))
        #expect(both.failure?.kind == .credentials)
        #expect(try await bed.again(both.id).failure?.kind == .credentials)
        #expect(try server.authorizations.suffix(2) == ["Bearer third", "Bearer fourth"])
        try await queue().addCredential(.token("new", at: server))
        let download = try await bed.run(request(as: "third"))
        #expect(download.failure?.kind == .credentials)
        #expect(try await bed.again(download.id).failure?.kind == .credentials)
        #expect(try server.authorizations.count == 6)
    }

    // MARK: client certificates

    private func identity(_ passphrase: String = "passphrase") throws -> DownloadCredential.Content {
        let path = try server.makeCertificate("client", ["issuer": "authority", "client": true])
        let file = try Data(contentsOf: URL(fileURLWithPath: path + ".p12"))
        return .identity(pkcs12: Array(file.base64EncodedData()), passphrase: .text(passphrase))
    }

    @Test("A client certificate, given or kept, is shown to its server", arguments: [false, true])
    func identities(isKept: Bool) async throws {
        let port = try server.listen("mutual", chain: ["server"], clientAuthority: "authority")
        var request = try request()
        request.url = server.url("/file", port: port)
        request.retry.maximumFailures = 2
        let credential = try DownloadCredential(identity(), for: ProtectionSpace(host: "localhost", port: port))
        if isKept {
            #expect(try await bed.run(request).failure?.kind == .credentials)
            try await queue().addCredential(credential)
            request.target = bed.path("second")
            #expect(try await bed.run(request).state == .finished)
        } else {
            request.credentials = [credential]
            try expectFinished(await bed.run(request))
        }
        #expect(try server.requests().last?.clientSubject != nil)
    }

    @Test("A wrong passphrase, and bytes that are no PKCS #12, are reported at once")
    func malformedIdentities() throws {
        let space = ProtectionSpace(host: "localhost", port: server.port)
        for (content, wanted) in [
            (try identity("wrong"), ClientIdentityError.wrongPassphrase),
            (.identity(pkcs12: [1, 2, 3], passphrase: nil), .malformed(why: "neither DER nor base 64")),
        ] {
            let error = #expect(throws: DownloadError.self) { try DownloadCredential(content, for: space) }
            guard case .unusableIdentity(wanted)? = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
        }
    }

    // MARK: what cannot be done

    @Test("A method that cannot be done, and a page to log in, are errors, and nothing is sent")
    func unsupported() async throws {
        try await queue().addCredential(.password("user", "right", at: server))
        try server.guardPaths("/file", .other("Negotiate"))
        let download = try await bed.run(request())
        #expect(download.failure?.kind == .authenticationUnsupported)
        #expect(download.failure?.message.contains("Negotiate") == true)
        try server.answer("/form", Answer(status: 200, "<form>", headers: [["Content-Type", "text/html"]]))
        var form = try bed.request(server, "/form", as: "form")
        form.acceptedTypes = ["application/*"]
        let page = try await bed.run(form)
        #expect(page.failure?.kind == .unusable && page.failure?.message.contains("text/html") == true)
        #expect(try server.authorizations.isEmpty)
        #expect(try bed.names().isEmpty)
    }

    @Test("Nothing for a server without TLS, nor of another kind than the method")
    func malformed() throws {
        let secret = CredentialSecret.text("secret")
        for (content, space) in [
            (.password(user: "user", secret), ProtectionSpace(.http, host: "h.test", port: 80)),
            (.password(user: "user", secret), ProtectionSpace(host: "h.test", port: 443, method: .bearer)),
            (.token(secret), ProtectionSpace(host: "h.test", port: 443, method: .basic)),
        ] as [(DownloadCredential.Content, ProtectionSpace)] {
            #expect(throws: DownloadError.self) { try DownloadCredential(content, for: space) }
        }
        var request = DownloadRequest(URL(string: "http://h.test/a")!, to: "/a")
        request.allowsPlainHTTP = true
        request.credentials = [try .token("token", at: server)]
        #expect(throws: DownloadError.self) { try request.check() }
    }
}
