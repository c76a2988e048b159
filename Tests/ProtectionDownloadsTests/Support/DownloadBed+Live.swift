import FaultServer
import GRDB
import ProtectionKeys

@testable import DataProtection
@testable import ProtectionDownloads

extension DownloadBed {
    /// Asks a real server for a path, and trusts it.
    func request(_ server: FaultServer, _ path: String = "/file", as name: String = "file") throws -> DownloadRequest {
        try trusting(server, DownloadRequest(server.url(path), to: self.path(name)))
    }

    /// Sends a file to a real server.
    func upload(
        _ server: FaultServer, _ name: String = "file", by method: DownloadRequest.Upload = .put
    ) throws -> DownloadRequest {
        try trusting(server, DownloadRequest(uploading: path(name), to: server.url("/file"), by: method))
    }

    private func trusting(_ server: FaultServer, _ request: DownloadRequest) throws -> DownloadRequest {
        var request = request
        request.trust = try ServerTrust(anchors: .only(try Certificate.all(from: Array(server.authority))))
        request.retry.firstDelay = .milliseconds(10)
        request.retry.maximumFailures = 4
        return request
    }

    /// How many credentials are in the list.
    var keptCredentials: Int? {
        get throws {
            try DownloadStore(keybag).read { try Int.fetchOne($0, sql: "SELECT count(*) FROM credentials") }
        }
    }

    /// Makes a protected file.
    func put(_ bytes: [UInt8], _ name: String = "file", as protectionClass: ProtectionClass) throws {
        let writer = try ProtectedFileWriter(path(name), as: protectionClass, keybag: keybag, replacing: false)
        try bytes.withUnsafeBytes { try writer.append($0) }
        try writer.finish()
    }

    /// Adds, runs with a client of its own as a process that was started anew does, and looks.
    func run(
        _ request: DownloadRequest, _ connections: DownloadConnections = DownloadConnections()
    ) async throws -> Download {
        let queue = try DownloadQueue(keybag, connections: connections)
        return try await again(queue.add(request).id, connections)
    }

    /// Resumes what has failed, runs as a process that was started anew does, and looks.
    func again(
        _ id: DownloadID, _ connections: DownloadConnections = DownloadConnections()
    ) async throws -> Download {
        let queue = try DownloadQueue(keybag, connections: connections)
        if try await queue.download(id).state == .failed { try await queue.resume(id) }
        try await queue.run(untilIdle: true)
        return try await queue.download(id)
    }
}

extension DownloadCredential {
    static func password(
        _ user: String, _ password: String, at server: FaultServer, realm: String? = nil,
        method: AuthenticationMethod? = nil
    ) throws -> DownloadCredential {
        let space = ProtectionSpace(host: "localhost", port: server.port, realm: realm, method: method)
        return try DownloadCredential(.password(user: user, .text(password)), for: space)
    }

    static func token(_ token: String, at server: FaultServer) throws -> DownloadCredential {
        try DownloadCredential(.token(.text(token)), for: ProtectionSpace(host: "localhost", port: server.port))
    }
}

extension CredentialSecret {
    static func text(_ text: String) -> CredentialSecret { CredentialSecret(DownloadBed.secret(text)) }
}

extension FaultServer {
    /// The credentials that have reached it, in their order.
    var authorizations: [String] { get throws { try requests().compactMap { $0["Authorization"] } } }
}
