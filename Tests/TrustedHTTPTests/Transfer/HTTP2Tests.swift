import FaultServer
import Foundation
import Testing
import TrustedHTTP

@Suite("HTTP/2", .enabled(if: Nginx.isThere, "there is no nginx"))
struct HTTP2Tests {
    let server: FaultServer
    let nginx: Nginx
    let client = HTTPClient()

    init() throws {
        server = try FaultServer()
        let files = "\(server.directory)/files"
        try FileManager.default.createDirectory(atPath: files, withIntermediateDirectories: false)
        try Data(Answer.pattern(0..<20 << 20)).write(to: URL(fileURLWithPath: "\(files)/large"))
        try Data(Answer.pattern(seed: 2, 0..<1000)).write(to: URL(fileURLWithPath: "\(files)/small"))
        nginx = try Nginx(serving: files, certificate: "\(server.directory)/server")
    }

    private func request(_ path: String) throws -> HTTPRequest {
        var request = HTTPRequest(nginx.url(path))
        request.trust = try server.trust
        return request
    }

    @Test("Chosen by ALPN; bodies arrive whole, and ranges")
    func chosen() async throws {
        let sink = Sink()
        let response = try await client.transfer(request("/large"), to: sink)
        #expect(response.version == "2" && response.status == 200 && sink.bytes == Answer.pattern(0..<20 << 20))
        var part = try request("/small")
        part.headers = [HTTPHeader("Range", "bytes=100-199")]
        let (partial, bytes) = try await client.send(part)
        #expect(partial.status == 206 && bytes == Answer.pattern(seed: 2, 100..<200))
    }

    @Test("A slow receiver holds up itself, and no other stream of the connection")
    func multiplexed() async throws {
        let slow = Sink(delay: 50_000)
        async let large = client.transfer(request("/large"), to: slow)
        for _ in 0..<50 { #expect(try await client.send(request("/small")).body.count == 1000) }
        _ = try await large
        #expect(slow.bytes == Answer.pattern(0..<20 << 20))
    }

    @Test("A transfer of many that is cancelled takes no other one along")
    func cancelled() async throws {
        let doomed = Task { try await client.failure(request("/large"), to: Sink(delay: 100_000)) }
        let sink = Sink()
        async let other = client.transfer(request("/large"), to: sink)
        doomed.cancel()
        guard case .cancelled = try await doomed.value else {
            Issue.record("not cancelled")
            return
        }
        _ = try await other
        #expect(sink.bytes == Answer.pattern(0..<20 << 20))
    }
}
