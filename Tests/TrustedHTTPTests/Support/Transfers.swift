import FaultServer
import Foundation
import ProtectionKeys
import Synchronization
import Testing
import TrustedHTTP

/// A server for tests that do not count what it sees.
let sharedServer = Result { try FaultServer() }

extension FaultServer {
    static var shared: FaultServer { get throws { try sharedServer.get() } }

    /// Trusts nobody but this server's authority.
    var trust: ServerTrust {
        get throws { try ServerTrust(anchors: .only(Certificate.all(from: Array(authority)))) }
    }

    /// A request for a path of this server.
    func request(_ path: String, host: String = "localhost", port: Int? = nil) throws -> HTTPRequest {
        var request = HTTPRequest(url(path, host: host, port: port))
        request.trust = try trust
        return request
    }

    /// Those for one path.
    func requests(for path: String) throws -> [Request] { try requests().filter { $0.target == path } }

    /// Whether these bytes have reached it, in any form of HTTP.
    func hasReceived(_ text: String) throws -> Bool { try received().range(of: Data(text.utf8)) != nil }
}

/// Receives everything, or as much as it was told to.
final class Sink: HTTPReceiver {
    struct Received {
        var responses: [HTTPResponse] = []
        var bytes: [UInt8] = []
    }
    private let received = Mutex(Received())
    private let limit: Int
    private let delay: UInt32

    struct Full: Error, Equatable {}

    /// - Parameters:
    ///   - limit: throws ``Full`` when there are more bytes.
    ///   - delay: microseconds that it takes for each piece.
    init(limit: Int = .max, delay: UInt32 = 0) { (self.limit, self.delay) = (limit, delay) }

    var bytes: [UInt8] { received.withLock(\.bytes) }
    var responses: [HTTPResponse] { received.withLock(\.responses) }

    func begin(_ response: HTTPResponse) throws { received.withLock { $0.responses.append(response) } }
    func receive(_ bytes: UnsafeRawBufferPointer) throws {
        if delay > 0 { usleep(delay) }
        let count = received.withLock { received in
            received.bytes += bytes
            return received.bytes.count
        }
        if count > limit { throw Full() }
    }
}

extension HTTPClient {
    /// The error of a transfer that must not succeed.
    func failure(_ request: HTTPRequest, to sink: Sink = Sink()) async throws -> HTTPError {
        do throws(HTTPError) {
            let response = try await transfer(request, to: sink)
            struct NoError: Error { let status: Int }
            throw HTTPError.refused(by: NoError(status: response.status))
        } catch {
            return error
        }
    }
}

extension CredentialSecret {
    static func text(_ text: String) -> CredentialSecret {
        let bytes = Array(text.utf8)
        return CredentialSecret(SecretBytes(byteCount: bytes.count) { slot in slot.copyBytes(from: bytes) })
    }
}
