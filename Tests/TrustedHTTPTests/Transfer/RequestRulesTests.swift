import FaultServer
import Foundation
import Testing
import TrustedHTTP

@Suite("Requests refused before anything is sent")
struct RequestRulesTests {
    let server: FaultServer
    let client = HTTPClient()

    init() throws { server = try FaultServer() }

    private func check(_ request: HTTPRequest, _ isRight: (HTTPError) -> Bool) async throws {
        let failure = try await client.failure(request)
        #expect(isRight(failure), "\(failure)")
        #expect(try server.accepted() == 0)
    }

    @Test("http:// unless it is allowed")
    func plain() async throws {
        var request = HTTPRequest(server.url("/plain", scheme: "http"))
        try await check(request) { if case .plainHTTPNotAllowed(host: "localhost") = $0 { true } else { false } }
        request.allowsPlainHTTP = true
        try server.answer("/plain", Answer(status: 200, "text"))
        #expect(try await client.send(request).body == Array("text".utf8))
    }

    @Test("No time is too short or too long", arguments: [0, -1, Int64.max, .min])
    func times(seconds: Int64) async throws {
        try server.answer("/", Answer(status: 200, "text"))
        var request = try server.request("/")
        request.connectTimeout = .seconds(seconds)
        do throws(HTTPError) { _ = try await client.send(request) } catch {
            // A millisecond is not enough everywhere.
            guard case .connectTimeout = error, seconds < 1 else { throw error }
        }
    }

    @Test("Credentials over http://, allowed or not", arguments: ["Authorization", "cookie", "COOKIE2"])
    func credentialsInClear(name: String) async throws {
        var request = HTTPRequest(server.url("/", scheme: "http"))
        (request.allowsPlainHTTP, request.headers) = (true, [HTTPHeader(name, "secret")])
        try await check(request) { if case .credentialsOverPlainHTTP(host: "localhost") = $0 { true } else { false } }
    }

    @Test("User and password in the URL", arguments: ["user:password", "user", ":password", "", ":"])
    func credentialsInURL(user: String) async throws {
        let url = try #require(URL(string: "https://\(user)@localhost:\(server.port)/"))
        try await check(HTTPRequest(url)) { if case .credentialsInURL = $0 { true } else { false } }
    }

    @Test(
        "Other protocols",
        arguments: ["file:///etc/passwd", "ftp://localhost/", "gopher://localhost/", "https:///path", "/path"])
    func otherProtocols(text: String) async throws {
        try await check(HTTPRequest(try #require(URL(string: text)))) {
            if case .unsupportedURL = $0 { true } else { false }
        }
    }

    @Test(
        "Headers that would end the line, or that are the connection's own",
        arguments: [
            ("X", "a\r\nY: b"), ("X", "a\nb"), ("X", "a\0b"), ("X Y", "a"), ("", "a"), ("X:", "a"), ("X\r\nY", "a"),
            ("Host", "a"), ("content-length", "1"), ("Transfer-Encoding", "chunked"), ("Proxy-Authorization", "a"),
            ("Connection", "close"), ("Upgrade", "h2c"),
        ])
    func headers(name: String, value: String) async throws {
        var request = try server.request("/")
        request.headers = [HTTPHeader(name, value)]
        try await check(request) {
            switch $0 {
            case .malformedHeader(name), .managedHeader(name): true
            default: false
            }
        }
    }

    @Test("Methods", arguments: ["", "GET /", "G\r\n", "CONNECT", "trace"])
    func methods(method: String) async throws {
        var request = try server.request("/")
        request.method = method
        try await check(request) { if case .malformedRequest = $0 { true } else { false } }
    }

    @Test(
        "Proxies that would see too much",
        arguments: [
            "https://localhost:1", "socks5://localhost:1", "socks4://localhost:1", "http://user:password@localhost:1",
            "http://localhost", "localhost:1", "http://:1", "http://local host:1", "http://localhost:0",
            "http://localhost:70000",
        ])
    func proxies(text: String) {
        #expect {
            try HTTPProxy(text)
        } throws: {
            if case .unsupportedProxy? = $0 as? HTTPError { true } else { false }
        }
    }
}
