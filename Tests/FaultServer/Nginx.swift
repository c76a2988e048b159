import Foundation

/// nginx on loopback with TLS and HTTP/2, for a directory: as good a server as there are, and a fast one. Gone with this object.
public final class Nginx: Sendable {
    public let port: Int
    private let process: Process
    private let scratch: String

    /// What nginx could not do.
    public struct Failure: Error, CustomStringConvertible {
        public let description: String
    }

    /// Whether there is an nginx; where there is none, tests say that they were skipped.
    public static var isThere: Bool { FileManager.default.isExecutableFile(atPath: "/usr/sbin/nginx") }

    /// - Parameters:
    ///   - directory: whose files it serves.
    ///   - certificate: a path without `.pem` and `.key`, as ``FaultServer/makeCertificate(_:_:)`` returns it.
    ///   - bytesPerSecond: how fast it sends over each connection; nil: as fast as it can.
    public init(serving directory: String, certificate: String, bytesPerSecond: Int? = nil) throws {
        let parent = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(parent)/protectfs-nginx-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure(description: "mkdtemp: \(errno)") }
        let scratch = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        self.scratch = scratch
        port = try Loopback.freePort()
        let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map { "\($0)_temp_path \(scratch)/\($0);" }
        // Its workers would otherwise be another user's, who may not look into the directories of tests.
        let user = geteuid() == 0 ? "user root;" : ""
        let rate = bytesPerSecond.map { "limit_rate \($0);" } ?? ""
        let configuration = """
            \(user) daemon off; worker_processes 1; pid \(scratch)/pid; error_log \(scratch)/error.log;
            events { worker_connections 256; }
            http {
                access_log off; sendfile on; keepalive_requests 100000; \(rate) \(kinds.joined(separator: " "))
                server {
                    listen 127.0.0.1:\(port) ssl http2; root \(directory);
                    ssl_certificate \(certificate).pem; ssl_certificate_key \(certificate).key;
                }
            }

            """
        try Data(configuration.utf8).write(to: URL(fileURLWithPath: "\(scratch)/nginx.conf"))
        process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/sbin/nginx")
        process.arguments = ["-p", scratch, "-c", "\(scratch)/nginx.conf", "-e", "\(scratch)/error.log"]
        process.standardInput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        try waitUntilThere()
    }

    deinit {
        process.terminate()
        process.waitUntilExit()
        try? FileManager.default.removeItem(atPath: scratch)
    }

    public func url(_ path: String) -> URL { URL(string: "https://localhost:\(port)\(path)")! }

    private func waitUntilThere() throws {
        if try Loopback.isServed(port, while: process.isRunning) { return }
        let log = (try? String(contentsOfFile: "\(scratch)/error.log", encoding: .utf8)) ?? ""
        throw Failure(description: "nginx did not start: \(log)")
    }
}
