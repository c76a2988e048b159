import FaultServer
import Foundation
import Testing

@testable import TrustedHTTP

@Suite("Redirects")
struct RedirectTests {
    let server: FaultServer
    let client = HTTPClient()

    init() throws { server = try .shared }

    @Test(
        "A redirect keeps the method, or changes it to GET, by its status",
        arguments: [
            (301, "GET", "GET"), (301, "POST", "GET"), (301, "PUT", "PUT"), (302, "POST", "GET"), (302, "HEAD", "HEAD"),
            (303, "PUT", "GET"), (303, "HEAD", "HEAD"), (307, "POST", "POST"), (308, "PUT", "PUT"),
        ])
    func method(status: Int, before: String, after: String) throws {
        var request = HTTPRequest(try #require(URL(string: "https://example.org/a/b?c#d")))
        request.method = before
        request.headers = [HTTPHeader("Content-Type", "text/plain"), HTTPHeader("Authorization", "x")]
        request.body = ["POST", "PUT"].contains(before) ? BytesToSend([1]) : nil
        let response = HTTPResponse(
            status: status, headers: [HTTPHeader("location", "../e")], url: request.url, version: "2")
        let next = try Redirect.next(request, after: response, count: 1)
        #expect(next.method == after && next.url.absoluteString == "https://example.org/e")
        #expect((next.body == nil) == (before != after || request.body == nil))
        #expect(next.headers.contains { $0.name == "Authorization" })
    }

    @Test(
        "Credentials of the caller stay where they belong",
        arguments: [
            ("https://example.org/x", true), ("https://example.org:443/x", true), ("https://EXAMPLE.org/x", true),
            ("https://example.org:8443/x", false), ("https://other.example.org/x", false), ("//example.com/x", false),
        ])
    func credentials(location: String, stay: Bool) throws {
        var request = HTTPRequest(try #require(URL(string: "https://example.org/a")))
        request.headers = [
            HTTPHeader("AUTHORIZATION", "x"), HTTPHeader("Cookie", "x"), HTTPHeader("Range", "bytes=1-"),
        ]
        let response = HTTPResponse(
            status: 302, headers: [HTTPHeader("Location", location)], url: request.url, version: "2")
        let next = try Redirect.next(request, after: response, count: 1)
        #expect(next.headers.count == (stay ? 3 : 1))
    }

    @Test("Another origin gets no body and no header that may hold a secret, unless the request says so")
    func everything() throws {
        var request = HTTPRequest(try #require(URL(string: "https://example.org/a")))
        request.method = "PUT"
        request.headers = [
            HTTPHeader("PRIVATE-TOKEN", "x"), HTTPHeader("X-Api-Key", "x"), HTTPHeader("Accept", "a/b"),
            HTTPHeader("Authorization", "x"),
        ]
        request.body = BytesToSend([1])
        func next(_ status: Int) throws -> HTTPRequest {
            let headers = [HTTPHeader("Location", "https://example.com/b")]
            let response = HTTPResponse(status: status, headers: headers, url: request.url, version: "2")
            return try Redirect.next(request, after: response, count: 1)
        }
        for status in [301, 302, 307, 308] {
            let error = #expect(throws: HTTPError.self) { try next(status) }
            guard case .redirectOfBody(from: "example.org", to: "example.com")? = error else {
                Issue.record("\(status): \(String(describing: error))")
                continue
            }
        }
        #expect(try next(303).headers.map(\.name) == ["Accept"])
        request.redirectsEverything = true
        #expect(try next(307).headers.map(\.name) == ["PRIVATE-TOKEN", "X-Api-Key", "Accept"])
        #expect(try next(307).body != nil)
    }

    @Test(
        "An answer counts only from a server that got the body, or after a 303 within that server",
        arguments: [
            (["/b"], true), (["https://example.org:443/b", "/c"], true), (["https://example.com/b"], false),
            (["https://example.org:8443/b"], false), (["/b", "https://example.com/c"], false),
            (["https://example.com/b", "https://example.org/a"], false),
        ])
    func acknowledgement(locations: [String], isAcknowledged: Bool) throws {
        for (method, status) in [("PUT", 303), ("POST", 301), ("POST", 302), ("POST", 303)] {
            var request = HTTPRequest(try #require(URL(string: "https://example.org/a")))
            (request.method, request.body) = (method, BytesToSend([1]))
            for (index, location) in locations.enumerated() {
                let response = HTTPResponse(
                    status: status, headers: [HTTPHeader("Location", location)], url: request.url, version: "2")
                request = try Redirect.next(request, after: response, count: index + 1)
            }
            // By 301 and 302 a server may ask for a login.
            let counts = isAcknowledged && status == 303
            #expect(request.body == nil && request.hasLostBody != counts, "\(method) \(status)")
        }
        // One that gets the body, because the request says so, acknowledges it.
        var request = HTTPRequest(try #require(URL(string: "https://example.org/a")))
        (request.method, request.body, request.redirectsEverything) = ("PUT", BytesToSend([1]), true)
        for (index, location) in locations.enumerated() {
            let response = HTTPResponse(
                status: 307, headers: [HTTPHeader("Location", location)], url: request.url, version: "2")
            request = try Redirect.next(request, after: response, count: index + 1)
        }
        #expect(request.body != nil && !request.hasLostBody)
    }

    @Test("A response from another origin says that the origin did not get the body")
    func acknowledgementOfAnotherOrigin() async throws {
        let server = try FaultServer()
        let other = try server.listen("other", chain: ["server"])
        try server.answer("/here", .redirect(to: server.url("/there", port: other).absoluteString, status: 303))
        try server.answer("/there", Answer(status: 200, "welcome"))
        var request = try server.request("/here")
        (request.method, request.body) = ("POST", BytesToSend([1, 2, 3]))
        let sink = Sink()
        let response = try await client.transfer(request, to: sink)
        #expect(response.status == 200 && !response.acknowledgesBody)
        #expect(sink.responses.map(\.acknowledgesBody) == [false])
        #expect(try await client.send(server.request("/there")).response.acknowledgesBody)
    }

    @Test(
        "Places that one is not sent to",
        arguments: [
            "http://example.org/", "HTTP://example.org/", "file:///etc/passwd", "https://user:pw@example.org/", "",
            "https://a b/",
            "https://example.org/\u{1}",
        ])
    func refused(location: String) throws {
        let request = HTTPRequest(try #require(URL(string: "https://example.org/a")))
        let response = HTTPResponse(
            status: 302, headers: [HTTPHeader("Location", location)], url: request.url, version: "2")
        #expect(throws: HTTPError.self) { try Redirect.next(request, after: response, count: 1) }
    }

    @Test("Followed to the end, which is what the receiver gets")
    func followed() async throws {
        try server.answer("/first", .redirect(to: "/second").with(\.length, 30_000).with(\.bytes, nil))
        try server.answer("/second", .redirect(to: server.url("/third").absoluteString, status: 307))
        try server.answer("/third", Answer(length: 1000))
        let sink = Sink()
        let response = try await client.transfer(server.request("/first"), to: sink)
        #expect(response.status == 200 && response.url == server.url("/third"))
        #expect(sink.responses.count == 1 && sink.bytes == Answer.pattern(0..<1000))
    }

    @Test("A redirect with an endless body is followed all the same")
    func endless() async throws {
        try server.answer("/endless", .redirect(to: "/end").with(\.bytes, nil).with(\.length, 1 << 30))
        try server.answer("/end", Answer(status: 200, "end"))
        #expect(try await client.send(server.request("/endless")).body == Array("end".utf8))
    }

    @Test("A loop ends, and with 0 the redirect is the response")
    func loop() async throws {
        let server = try FaultServer()
        try server.answer("/loop", .redirect(to: "/loop"))
        var request = try server.request("/loop")
        guard case .tooManyRedirects(limit: 10) = try await client.failure(request) else {
            Issue.record("no end")
            return
        }
        #expect(try server.requests().count == 11)
        request.maximumRedirects = 0
        #expect(try await client.send(request).response.status == 302)
    }

    @Test("https to http is refused, even where http is allowed; nothing arrives there")
    func downgrade() async throws {
        let server = try FaultServer()
        try server.answer("/down", .redirect(to: server.url("/plain", scheme: "http").absoluteString))
        var request = try server.request("/down")
        request.allowsPlainHTTP = true
        guard case .redirectToPlainHTTP(from: "localhost", to: "localhost") = try await client.failure(request) else {
            Issue.record("not refused")
            return
        }
        #expect(try server.requests().map(\.listener) == ["https"])
    }

    @Test("Another origin gets no credentials of the caller")
    func otherOrigin() async throws {
        let server = try FaultServer()
        let other = try server.listen("other", chain: ["server"])
        try server.answer("/here", .redirect(to: server.url("/there", port: other).absoluteString))
        try server.answer("/there", Answer(status: 200))
        var request = try server.request("/here")
        request.headers = [
            HTTPHeader("Authorization", "Bearer planted"), HTTPHeader("X-Other", "here"), HTTPHeader("Accept", "*/*"),
        ]
        _ = try await client.send(request)
        let seen = try server.requests()
        #expect(seen.map(\.listener) == ["https", "other"])
        #expect(seen[0]["Authorization"] == "Bearer planted" && seen[1]["Authorization"] == nil)
        #expect(seen[0]["X-Other"] == "here" && seen[1]["X-Other"] == nil)
        #expect(seen[1]["Accept"] == "*/*")
    }

    @Test("Every hop is under the same trust")
    func trustOfHops() async throws {
        let server = try FaultServer()
        try server.makeCertificate("stranger", ["names": ["localhost"]])
        let other = try server.listen("other", chain: ["stranger"])
        try server.answer("/here", .redirect(to: server.url("/there", port: other).absoluteString))
        guard case .serverNotTrusted = try await client.failure(server.request("/here")) else {
            Issue.record("trusted")
            return
        }
        #expect(try server.requests().count == 1)
    }
}
