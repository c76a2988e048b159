import FaultServer
import Foundation
import Testing
import TrustedHTTP

@Suite("Proxies")
struct ProxyTests {
    let server: FaultServer
    let client = HTTPClient()

    init() throws {
        server = try FaultServer()
        try server.answer("/", Answer(length: 100_000))
    }

    private func request(_ kind: HTTPProxy.Kind, host: String = "localhost") throws -> HTTPRequest {
        var request = try server.request("/", host: host)
        request.proxy = HTTPProxy(kind, host: "127.0.0.1", port: kind == .http ? server.proxyPort : server.socksPort)
        return request
    }

    @Test("A tunnel by CONNECT; names are the proxy's affair", arguments: ["localhost", "example.test"])
    func tunnel(host: String) async throws {
        #expect(try await client.send(request(.http, host: host)).body == Answer.pattern(0..<100_000))
        let seen = try server.requests()
        #expect(seen.map(\.method) == ["CONNECT", "GET"] && seen.map(\.listener) == ["proxy", "https"])
        #expect(seen[0].target == "\(host):\(server.port)")
    }

    @Test("SOCKS 5, with names resolved by the proxy")
    func socks() async throws {
        #expect(try await client.send(request(.socks5h, host: "example.test")).body == Answer.pattern(0..<100_000))
        #expect(try server.proxied() == ["name example.test:\(server.port)"])
        // Version 5, one method, and that is to say nothing of oneself: no ticket of Kerberos is offered.
        #expect(try server.received().starts(with: [5, 1, 0]))
    }

    @Test("A plain request is handed to the proxy whole")
    func plain() async throws {
        var request = try request(.http)
        (request.url, request.allowsPlainHTTP) = (try #require(URL(string: "http://example.test/")), true)
        #expect(try await client.send(request).body.count == 100_000)
        #expect(try server.requests().map(\.target) == ["http://example.test/"])
    }

    @Test("Behind a proxy a server is trusted no more than elsewhere", arguments: [HTTPProxy.Kind.http, .socks5h])
    func trust(kind: HTTPProxy.Kind) async throws {
        var request = try request(kind)
        request.trust = ServerTrust()
        guard case .serverNotTrusted = try await client.failure(request) else {
            Issue.record("trusted")
            return
        }
        #expect(try !server.requests().contains { $0.method == "GET" })
    }

    @Test(
        "A proxy that asks who we are gets no more than its space allows", arguments: [nil, AuthenticationMethod.basic])
    func credentials(method: AuthenticationMethod?) async throws {
        try server.guardPaths("localhost", Scheme.basic("user", "correct horse").with(\.proxy, true))
        let proxy = ProtectionSpace(.proxy, host: "127.0.0.1", port: server.proxyPort, method: method)
        let store = SessionCredentials()
        await store.keep(Credential(.password(user: "user", .text("correct horse"))), for: proxy)
        var request = try request(.http)
        request.authentication = HTTPAuthentication([proxy], credentials: store)
        if method == .basic {
            #expect(try await client.send(request).body.count == 100_000)
            #expect(try server.requests().last?["Proxy-Authorization"] == nil)
        } else {
            guard case .spaceNotListed(_, proxy) = try await client.failure(request) else {
                Issue.record("answered")
                return
            }
            #expect(try server.requests().allSatisfy { $0["Proxy-Authorization"] == nil })
        }
    }

    @Test("Digest for the proxy, and then Basic for the server")
    func both() async throws {
        try server.guardPaths("localhost", Scheme.digest("proxy user", "one").with(\.proxy, true))
        try server.guardPaths("/", .basic("user", "two"))
        let proxy = ProtectionSpace(.proxy, host: "127.0.0.1", port: server.proxyPort)
        let space = ProtectionSpace(host: "localhost", port: server.port)
        let store = SessionCredentials()
        await store.keep(Credential(.password(user: "proxy user", .text("one"))), for: proxy)
        await store.keep(Credential(.password(user: "user", .text("two"))), for: space)
        var request = try request(.http)
        request.authentication = HTTPAuthentication([proxy, space], credentials: store)
        #expect(try await client.send(request).body.count == 100_000)
        for seen in try server.requests() where seen.method == "CONNECT" { #expect(seen["Authorization"] == nil) }
    }

    @Test("A proxy that asks who we are, and nobody is to be told")
    func withoutAuthentication() async throws {
        try server.guardPaths("localhost", Scheme.basic("user", "correct horse").with(\.proxy, true))
        guard case .proxyRefused(_, status: 407) = try await client.failure(request(.http)) else {
            Issue.record("not refused")
            return
        }
    }

    @Test("A proxy that refuses, and none there")
    func refused() async throws {
        var request = try request(.http)
        try server.answer("localhost:\(server.port)", Answer(status: 503))
        guard case .proxyRefused(_, status: 503) = try await client.failure(request) else {
            Issue.record("not refused")
            return
        }
        try server.close("proxy")
        request.proxy = HTTPProxy(.http, host: "127.0.0.1", port: server.proxyPort)
        guard case .cannotConnect(host: "127.0.0.1", port: server.proxyPort) = try await client.failure(request) else {
            Issue.record("there")
            return
        }
    }

    @Test("A server behind the tunnel that speaks as if it were the proxy gets a proxy's credential from nobody")
    func serverAsProxy() async throws {
        let challenge = ["Proxy-Authenticate", "Basic realm=\"x\""]
        try server.answer("/", Answer(status: 407, "inside", headers: [challenge]))
        let proxy = ProtectionSpace(.proxy, host: "127.0.0.1", port: server.proxyPort, method: .basic)
        let store = SessionCredentials()
        await store.keep(Credential(.password(user: "user", .text("correct horse"))), for: proxy)
        var request = try request(.http)
        request.authentication = HTTPAuthentication([proxy], credentials: store)
        let (response, body) = try await client.send(request)
        #expect(response.status == 407 && body == Array("inside".utf8))
        #expect(try server.requests().allSatisfy { $0["Proxy-Authorization"] == nil })
    }

    @Test("A tunnel that somebody has proved himself for is for nobody else")
    func tunnelsOfOthers() async throws {
        try server.guardPaths("localhost", Scheme.basic("user", "correct horse").with(\.proxy, true))
        let proxy = ProtectionSpace(.proxy, host: "127.0.0.1", port: server.proxyPort, method: .basic)
        let store = SessionCredentials()
        await store.keep(Credential(.password(user: "user", .text("correct horse"))), for: proxy)
        var request = try request(.http)
        let nobody = request
        request.authentication = HTTPAuthentication([proxy], credentials: store)
        #expect(try await client.send(request).response.status == 200)
        guard case .proxyRefused(_, status: 407) = try await client.failure(nobody) else {
            Issue.record("through the other one's tunnel")
            return
        }
    }

    @Test("Headers of the caller are for the server, not for the proxy")
    func headers() async throws {
        var request = try request(.http)
        request.headers = [HTTPHeader("Authorization", "Bearer planted"), HTTPHeader("Cookie", "a=b")]
        _ = try await client.send(request)
        let seen = try server.requests()
        #expect(seen.map(\.method) == ["CONNECT", "GET"] && seen[1]["Authorization"] == "Bearer planted")
        #expect(seen[0]["Authorization"] == nil && seen[0]["Cookie"] == nil)
    }

    @Test(
        "A proxy that is no host and port, however it was made",
        arguments: [
            ("user:password@127.0.0.1", 1), ("127.0.0.1/", 1), ("", 1), ("127.0.0.1", 0), ("127.0.0.1", 70_000),
        ])
    func malformed(host: String, port: Int) async throws {
        var request = try server.request("/")
        request.proxy = HTTPProxy(.http, host: host, port: port == 1 ? server.proxyPort : port)
        guard case .unsupportedProxy = try await client.failure(request) else {
            Issue.record("used")
            return
        }
        #expect(try server.accepted() == 0)
    }

    @Test("No variable of the environment brings a proxy")
    func environment() async throws {
        // A process of its own: setenv(3) and threads do not go together.
        await #expect(processExitsWith: .success) {
            // Names that libcurl reads; nothing listens at that port.
            for name in ["https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
                setenv(name, "http://127.0.0.1:1", 1)
            }
            let server = try FaultServer()
            try server.answer("/", Answer(status: 200))
            #expect(try await HTTPClient().send(server.request("/")).response.status == 200)
        }
    }

    @Test("No variable of the environment gets the keys of connections")
    func keyLog() async throws {
        await #expect(processExitsWith: .success) {
            let log = FileManager.default.temporaryDirectory.path + "/protectfs-keys-\(getpid())"
            setenv("SSLKEYLOGFILE", log, 1)
            let server = try FaultServer()
            try server.answer("/", Answer(status: 200))
            #expect(try await HTTPClient().send(server.request("/")).response.status == 200)
            // libcurl makes the file; what counts is that nothing is in it.
            let keys = try? Data(contentsOf: URL(fileURLWithPath: log))
            unlink(log)
            #expect(keys?.isEmpty ?? true)
        }
    }
}
