import FaultServer
import Foundation
import Testing
import TrustedHTTP

@Suite("Transfers that fail")
struct TransferFaultTests {
    let server: FaultServer
    let client = HTTPClient()

    init() throws { server = try .shared }

    @Test("A connection that is reset, wherever", arguments: [0, 1, 1000, 16_384, 99_999])
    func reset(after count: Int) async throws {
        try server.answer("/reset/\(count)", Answer(length: 100_000).with(\.cutAfter, count).with(\.end, .reset))
        let sink = Sink()
        let failure = try await client.failure(server.request("/reset/\(count)"), to: sink)
        switch failure {
        case .connectionLost, .truncated: break
        default: Issue.record("\(failure)")
        }
        #expect(failure.isTransient && sink.bytes == Answer.pattern(0..<sink.bytes.count) && sink.bytes.count <= count)
    }

    @Test("A body that is shorter than it should be", arguments: [Answer.End.close, .abort])
    func truncated(end: Answer.End) async throws {
        try server.answer("/short/\(end)", Answer(length: 100_000).with(\.cutAfter, 70_000).with(\.end, end))
        let sink = Sink(delay: 50_000)  // still at work when the connection ends
        let failure = try await client.failure(server.request("/short/\(end)"), to: sink)
        switch failure {
        case .truncated(received: 70_000, expected: 100_000), .connectionLost: break
        default: Issue.record("\(failure)")
        }
        #expect(failure.isTransient && sink.bytes == Answer.pattern(0..<70_000))
    }

    @Test("A body without a length ends by TLS's closing words, not without them")
    func withoutLength() async throws {
        let answer = Answer(length: 50_000).with(\.contentLength, -1)
        try server.answer("/open", answer)
        #expect(try await client.send(server.request("/open")).body == Answer.pattern(0..<50_000))
        try server.answer("/open/abort", answer.with(\.cutAfter, 40_000).with(\.end, .abort))
        let failure = try await client.failure(server.request("/open/abort"))
        #expect(failure.isTransient, "\(failure)")
    }

    @Test("A body in chunks that ends early")
    func chunks() async throws {
        try server.answer("/chunks", Answer(length: 50_000).with(\.chunked, true).with(\.cutAfter, 20_000))
        #expect(try await client.failure(server.request("/chunks")).isTransient)
    }

    @Test("A head that ends early", arguments: [0, 5, 30])
    func head(after count: Int) async throws {
        try server.answer("/head-cut/\(count)", Answer(length: 10).with(\.cutHeadAfter, count))
        let failure = try await client.failure(server.request("/head-cut/\(count)"))
        #expect(failure.isTransient, "\(failure)")
    }

    @Test("A server that stalls, in the body or before the head", arguments: [0, 1000])
    func stall(after count: Int) async throws {
        let server = try FaultServer()
        let answer =
            count == 0 ? Answer(length: 10).with(\.cutHeadAfter, 0) : Answer(length: 100_000).with(\.cutAfter, count)
        try server.answer("/stall", answer.with(\.end, .stall))
        var request = try server.request("/stall")
        request.stallLimit = .init(bytesPerSecond: 1, duration: .seconds(1))
        guard case .stalled = try await client.failure(request) else {
            Issue.record("not stalled")
            return
        }
    }

    @Test("A receiver that blocks for long is no stall")
    func blockedReceiver() async throws {
        try server.answer("/blocked", Answer(length: 9 << 20))
        var request = try server.request("/blocked")
        request.stallLimit = .init(bytesPerSecond: 1000, duration: .seconds(1))
        let sink = Sink(delay: 300_000)
        _ = try await client.transfer(request, to: sink)
        #expect(sink.bytes.count == 9 << 20)
    }

    @Test("A body that is too large, said or not", arguments: [false, true])
    func tooLarge(chunked: Bool) async throws {
        try server.answer("/large/\(chunked)", Answer(length: 1_000_000).with(\.chunked, chunked))
        var request = try server.request("/large/\(chunked)")
        request.maximumResponseSize = 500_000
        let sink = Sink()
        guard case .responseTooLarge(limit: 500_000, let announced) = try await client.failure(request, to: sink) else {
            Issue.record("not too large")
            return
        }
        #expect(announced == (chunked ? nil : 1_000_000) && sink.bytes.count <= 500_000)
        #expect(sink.responses.isEmpty == !chunked)
    }

    @Test("Nobody there, and no such name")
    func unreachable() async throws {
        let server = try FaultServer()
        try server.close("https")
        let refused = try await client.failure(server.request("/"))
        guard case .cannotConnect(host: "localhost", port: server.port) = refused else {
            Issue.record("\(refused)")
            return
        }
        let unknown = try await client.failure(server.request("/", host: "does-not-exist.invalid"))
        guard case .hostNotFound("does-not-exist.invalid") = unknown else {
            Issue.record("\(unknown)")
            return
        }
        #expect(refused.isTransient && unknown.isTransient)
    }

    @Test("Interim responses without end are cut off")
    func endlessInterim() async throws {
        let interim = String(repeating: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", count: 5000)
        let raw = Data((interim + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").utf8)
        try server.answer("/interim", Answer(status: 200).with(\.raw, raw))
        guard case .malformedResponse = try await client.failure(server.request("/interim")) else {
            Issue.record("no end")
            return
        }
    }

    @Test(
        "A body that is cut, and whose head says nothing of its length that could be believed",
        arguments: ["Transfer-Encoding: identity", "Content-Length: 99999999999999999999"])
    func cutWithoutLength(line: String) async throws {
        let raw = Data("HTTP/1.1 200 OK\r\n\(line)\r\nConnection: close\r\n\r\nhalf".utf8)
        try server.answer("/cut", Answer(status: 200).with(\.raw, raw).with(\.end, .abort))
        guard case .truncated(received: 4, expected: nil) = try await client.failure(server.request("/cut")) else {
            Issue.record("whole")
            return
        }
    }

    @Test("Heads without end are cut off", arguments: [(1, 400_000), (3000, 10)])
    func endlessHead(fields: Int, length: Int) async throws {
        let headers = (0..<fields).map { ["X-\($0)", String(repeating: "x", count: length)] }
        try server.answer("/head/\(fields)", Answer(status: 200, "text", headers: headers))
        let failure = try await client.failure(server.request("/head/\(fields)"))
        #expect(!failure.isTransient || fields == 1, "\(failure)")
    }

    @Test(
        "An answer that is not HTTP is a malformed response",
        arguments: ["SSH-2.0-server\r\n", "HTTP/1.1 abc OK\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n"])
    func notHTTP(text: String) async throws {
        let path = "/raw/\(text.utf8.count)"
        var answer = Answer(status: 200)
        answer.raw = Data(text.utf8)
        try server.answer(path, answer)
        let failure = try await client.failure(server.request(path))
        guard case .malformedResponse = failure else {
            Issue.record("\(failure)")
            return
        }
    }
}
