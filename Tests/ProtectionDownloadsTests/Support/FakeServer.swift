import Foundation
import Synchronization
import TrustedHTTP

@testable import ProtectionDownloads

/// A server, and the transport to it, that does what a test says, answer by answer.
final class FakeServer: DownloadTransport {
    /// What one answer does wrong.
    enum Fault: Sendable {
        /// Nothing: ranges are honoured as RFC 9110 says.
        case none
        /// The connection breaks after so many bytes of this body.
        case reset(after: Int)
        /// The body ends early, and nobody notices.
        case short(by: Int)
        /// More comes than was announced.
        case extra(Int)
        case ignoresRange
        case wrongRange(first: Int)
        /// 206 as the file has another length.
        case wrongTotal
        case status(Int, [String: String])
        case encoded(String)
        /// No Content-Length.
        case noLength
        case wrongLength(Int)
        /// Only so many bytes of what was asked for, in a right 206.
        case shortPart(Int)
    }

    struct Resource: Sendable {
        var bytes: [UInt8]
        var entityTag: String? = "\"1\""
        var lastModified: String?
        var supportsRanges = true
    }

    struct Broken: Error {}

    private struct State {
        var resources: [String: Resource] = [:]
        var faults: [Fault] = []
        var requests: [HTTPRequest] = []
        var pause: (@Sendable (_ sent: Int) async throws -> Void)?
    }
    private let state = Mutex(State())

    /// What it has under a name.
    subscript(_ name: String) -> Resource? {
        get { state.withLock { $0.resources["/" + name] } }
        set { state.withLock { $0.resources["/" + name] = newValue } }
    }

    /// What the next answers do; those after them are right.
    func answer(_ faults: Fault...) { state.withLock { $0.faults += faults } }

    /// Called before every piece of a body with how much of it was sent.
    func beforeEachPiece(_ body: (@Sendable (_ sent: Int) async throws -> Void)?) { state.withLock { $0.pause = body } }

    /// All requests so far.
    var requests: [HTTPRequest] { state.withLock { $0.requests } }

    func transfer(_ request: HTTPRequest, to receiver: any HTTPReceiver) async throws(HTTPError) -> HTTPResponse {
        let (fault, resource, pause) = state.withLock { state in
            state.requests.append(request)
            return (
                state.faults.isEmpty ? .none : state.faults.removeFirst(), state.resources[request.url.path()],
                state.pause
            )
        }
        let (response, body) = Self.answer(request, resource, fault)
        do {
            try receiver.begin(response)
            var sent = 0
            while sent < body.count {
                try Task.checkCancellation()
                try await pause?(sent)
                var end = min(sent + 50_000, body.count)
                if case .reset(let limit) = fault { end = min(end, limit) }
                if sent == end { throw Broken() }
                try body[sent..<end].withUnsafeBytes { try receiver.receive($0) }
                sent = end
            }
            if case .reset = fault { throw Broken() }
        } catch {
            throw .refused(by: error)
        }
        return response
    }

    private static func answer(
        _ request: HTTPRequest, _ resource: Resource?, _ fault: Fault
    ) -> (HTTPResponse, [UInt8]) {
        func response(_ status: Int, _ headers: [(String, String)]) -> HTTPResponse {
            HTTPResponse(
                status: status, headers: headers.map { HTTPHeader($0.0, $0.1) }, url: request.url, version: "1.1")
        }
        if case .status(let status, let headers) = fault { return (response(status, headers.map { ($0, $1) }), []) }
        guard let resource else { return (response(404, []), []) }
        var headers: [(String, String)] = [("Date", "Sun, 06 Nov 1994 08:49:37 GMT")]
        if let tag = resource.entityTag { headers.append(("ETag", tag)) }
        if let date = resource.lastModified { headers.append(("Last-Modified", date)) }
        if case .encoded(let coding) = fault { headers.append(("Content-Encoding", coding)) }
        func header(_ name: String) -> String? { request.headers.first { $0.name == name }?.value }
        let wanted = header("Range").flatMap { Int($0.dropFirst("bytes=".count).dropLast()) }
        let isSame = header("If-Range").map { $0 == resource.entityTag || $0 == resource.lastModified } ?? true
        var ignoresRange = !resource.supportsRanges
        if case .ignoresRange = fault { ignoresRange = true }
        guard let first = wanted, isSame, !ignoresRange else {
            var body = resource.bytes
            switch fault {
            case .noLength: break
            case .wrongLength(let length): headers.append(("Content-Length", "\(length)"))
            default: headers.append(("Content-Length", "\(body.count)"))
            }
            if case .short(let count) = fault { body.removeLast(count) }
            if case .extra(let count) = fault { body += [UInt8](repeating: 0, count: count) }
            return (response(200, headers), body)
        }
        let total = resource.bytes.count
        guard first < total else { return (response(416, headers + [("Content-Range", "bytes */\(total)")]), []) }
        var (start, end, said) = (first, total, "\(total)")
        if case .wrongRange(let other) = fault { start = other }
        if case .shortPart(let count) = fault { end = min(first + count, total) }
        if case .wrongTotal = fault { said = "\(total + 1)" }
        headers += [("Content-Range", "bytes \(start)-\(end - 1)/\(said)"), ("Content-Length", "\(end - start)")]
        return (response(206, headers), Array(resource.bytes[start..<end]))
    }
}
