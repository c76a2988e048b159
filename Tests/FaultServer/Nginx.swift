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
        port = try Self.freePort()
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
        for _ in 0..<1000 {
            let descriptor = try Self.socket()
            defer { close(descriptor) }
            if Self.call(connect, descriptor, port) { return }
            guard process.isRunning else { break }
            usleep(10_000)
        }
        let log = (try? String(contentsOfFile: "\(scratch)/error.log", encoding: .utf8)) ?? ""
        throw Failure(description: "nginx did not start: \(log)")
    }

    private static func freePort() throws -> Int {
        let descriptor = try socket()
        defer { close(descriptor) }
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        guard call(bind, descriptor, 0) else { throw Failure(description: "bind: \(errno)") }
        let bound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
        }
        guard bound == 0 else { throw Failure(description: "getsockname: \(errno)") }
        return Int(UInt16(bigEndian: address.sin_port))
    }

    private static func socket() throws -> Int32 {
        let descriptor = Foundation.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw Failure(description: "socket: \(errno)") }
        return descriptor
    }

    private static func call(
        _ function: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32, _ descriptor: Int32, _ port: Int
    ) -> Bool {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                function(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}
