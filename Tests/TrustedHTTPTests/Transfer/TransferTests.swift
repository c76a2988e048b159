import FaultServer
import Foundation
import Testing
import TrustedHTTP

@Suite("Transfers")
struct TransferTests {
    let server: FaultServer
    let client = HTTPClient()

    init() throws { server = try .shared }

    @Test(
        "A body arrives whole, whatever its length and framing", arguments: [0, 1, 16_384, 65_537, 9 << 20],
        [false, true])
    func whole(length: Int, chunked: Bool) async throws {
        let path = "/whole/\(length)/\(chunked)"
        try server.answer(path, Answer(length: length).with(\.chunked, chunked))
        let sink = Sink()
        let response = try await client.transfer(server.request(path), to: sink)
        #expect(response.status == 200 && response["etag"] == "\"1\"" && response.version == "1.1")
        #expect(sink.bytes == Answer.pattern(0..<length) && sink.responses.count == 1)
    }

    @Test("A slow receiver slows the server down, and gets everything")
    func slowReceiver() async throws {
        try server.answer("/slow", Answer(length: 12 << 20))
        let sink = Sink(delay: 20_000)
        _ = try await client.transfer(server.request("/slow"), to: sink)
        #expect(sink.bytes == Answer.pattern(0..<12 << 20))
    }

    @Test("Many at once, over one client")
    func many() async throws {
        try server.answer("/many", Answer(length: 100_000))
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 0..<20 {
                group.addTask { try await client.send(server.request("/many")).body == Answer.pattern(0..<100_000) }
            }
            for try await isRight in group { #expect(isRight) }
        }
    }

    @Test("Connections are used again")
    func reuse() async throws {
        let server = try FaultServer()
        try server.answer("/", Answer(status: 200, "text"))
        for _ in 0..<3 { #expect(try await client.send(server.request("/")).body == Array("text".utf8)) }
        #expect(try server.accepted() == 1)
    }

    @Test("A connection that the server has given up meanwhile is no reason to fail", arguments: ["GET", "PUT"])
    func givenUp(method: String) async throws {
        let server = try FaultServer()
        try server.answer("/", Answer(status: 200, "text"))
        #expect(try await client.send(server.request("/")).response.status == 200)
        try server.close("https")
        try server.reopen("https")
        var request = try server.request("/")
        request.method = method
        request.body = method == "PUT" ? BytesToSend(Answer.pattern(0..<100_000)) : nil
        #expect(try await client.send(request).response.status == 200)
        #expect(try server.requests().last?.bodyCount == (method == "PUT" ? 100_000 : 0))
    }

    @Test("The first error of the receiver ends the transfer, and is what the caller gets")
    func receiverThrows() async throws {
        try server.answer("/full", Answer(length: 50 << 20))
        let failure = try await client.failure(server.request("/full"), to: Sink(limit: 100_000))
        guard case .refused(let error) = failure else {
            Issue.record("\(failure)")
            return
        }
        #expect(error is Sink.Full)
    }

    @Test("A cancelled task ends its transfer")
    func cancelled() async throws {
        let server = try FaultServer()
        try server.answer("/held", Answer(length: 1 << 20).with(\.holdAfter, 1000))
        let task = Task { try await client.failure(server.request("/held")) }
        #expect(try await server.waitUntilHeld())
        task.cancel()
        guard case .cancelled = try await task.value else {
            Issue.record("\(try await task.value)")
            return
        }
    }

    @Test("A request is what the caller said, and says that it wants nothing compressed")
    func request() async throws {
        try server.answer("/request?a=1&b=%20", Answer(status: 200))
        var request = try server.request("/request?a=1&b=%20")
        request.headers = [HTTPHeader("X-Field", "one"), HTTPHeader("X-Field", "two"), HTTPHeader("X-Empty", "")]
        _ = try await client.send(request)
        let seen = try #require(server.requests(for: "/request?a=1&b=%20").first)
        #expect(seen.headers.filter { $0[0] == "X-Field" }.map { $0[1] } == ["one", "two"])
        #expect(seen["X-Empty"] == "" && seen["Accept-Encoding"] == "identity" && seen["Authorization"] == nil)
    }

    @Test("A body that is compressed all the same is delivered as it came")
    func compressed() async throws {
        let answer = Answer(status: 200, "not really", headers: [["Content-Encoding", "gzip"]])
        try server.answer("/gzip", answer)
        let (response, body) = try await client.send(server.request("/gzip"))
        #expect(response["Content-Encoding"] == "gzip" && body == Array("not really".utf8))
    }

    @Test("HEAD has no body, and a status of 400 and more is a response", arguments: [200, 404, 503])
    func head(status: Int) async throws {
        try server.answer("/head/\(status)", Answer(length: 1000).with(\.status, status))
        var request = try server.request("/head/\(status)")
        #expect(try await client.send(request).body.count == 1000)
        request.method = "HEAD"
        let (response, body) = try await client.send(request)
        #expect(response.status == status && body.isEmpty && response["Content-Length"] == "1000")
    }

    @Test("Uploads", arguments: ["PUT", "POST"], [0, 10, 3 << 20])
    func upload(method: String, length: Int) async throws {
        let path = "/upload/\(method)/\(length)"
        try server.answer(path, Answer(status: 201, "made"))
        var request = try server.request(path)
        request.method = method
        request.body = BytesToSend(Answer.pattern(0..<length))
        #expect(try await client.send(request).response.status == 201)
        let seen = try #require(server.requests(for: path).first)
        #expect(seen.method == method && seen.bodyCount == length)
        #expect(Array(seen.body) == Answer.pattern(0..<min(length, 65_536)))
    }

    @Test("A large upload waits for the server's word, which may be no")
    func continues() async throws {
        let server = try FaultServer()
        try server.answer("/no", Answer(status: 413, "too large").with(\.refusesContinue, true))
        var request = try server.request("/no")
        (request.method, request.body) = ("PUT", BytesToSend(Answer.pattern(0..<8 << 20)))
        #expect(try await client.send(request).response.status == 413)
        #expect(try server.received().count < 10_000)
    }

    @Test("A part of a resource, by the caller's own headers")
    func range() async throws {
        try server.answer("/range", Answer(length: 100_000))
        var request = try server.request("/range")
        request.headers = [HTTPHeader("Range", "bytes=99000-"), HTTPHeader("If-Range", "\"1\"")]
        let (response, body) = try await client.send(request)
        #expect(response.status == 206 && response["Content-Range"] == "bytes 99000-99999/100000")
        #expect(body == Answer.pattern(99_000..<100_000))
    }

    @Test("Nothing of a transfer stays when it is over")
    func released() async throws {
        try server.answer("/released", Answer(length: 100_000))
        weak var receiver: Sink?
        do {
            let sink = Sink()
            receiver = sink
            _ = try await client.transfer(server.request("/released"), to: sink)
        }
        // The engine's thread and the receiver's may still have it in their hands.
        for _ in 0..<1000 where receiver != nil { try await Task.sleep(for: .milliseconds(10)) }
        #expect(receiver == nil)
    }

    @Test("A page to log in is not taken for what was asked for", arguments: ["application/zip", "application/*"])
    func types(wanted: String) async throws {
        try server.answer("/zip", Answer(status: 200, "zip", headers: [["Content-Type", "Application/ZIP; x=y"]]))
        try server.answer("/login", .redirect(to: "/form"))
        try server.answer("/form", Answer(status: 200, "form", headers: [["Content-Type", "text/html"]]))
        var request = try server.request("/zip")
        request.acceptedTypes = [wanted]
        #expect(try await client.send(request).body == Array("zip".utf8))
        request.url = server.url("/login")
        let sink = Sink()
        guard case .unexpectedType("text/html", [wanted]) = try await client.failure(request, to: sink) else {
            Issue.record("taken")
            return
        }
        #expect(sink.responses.isEmpty)
    }
}
