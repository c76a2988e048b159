import Foundation
import Synchronization

/// An HTTP server on loopback, a process of its own, whose answers a test has written beforehand. Gone with this object.
///
///     let server = try FaultServer()
///     try server.answer("/file", Answer(length: 1 << 20).with(\.cutAfter, 1000).with(\.end, .reset), Answer(length: 1 << 20))
///     let url = server.url("/file")  // https://localhost:PORT/file, with a certificate of `server.authority`
public final class FaultServer: Sendable {
    /// Where certificates are: `authority.pem`, `server.pem`, and what ``makeCertificate(_:_:)`` makes.
    public let directory: String
    /// Of https, http, the proxy (CONNECT, and plain http) and the SOCKS 5 proxy.
    public let port, plainPort, proxyPort, socksPort: Int

    private struct Stage {
        let process: Process
        let commands: FileHandle
        let answers: FileHandle
    }
    private let stage: Mutex<Stage>

    /// Of the authority and the server: file → contents. All servers of a process have the same, because to make them takes Python three
    /// times as long as to start.
    private static let certificates = Mutex<[String: Data]>([:])

    /// What the server could not do.
    public struct Failure: Error, CustomStringConvertible {
        public let description: String
    }

    /// A request that has reached the server.
    public struct Request: Decodable, Sendable {
        public let method, target: String
        public let headers: [[String]]
        public let bodyCount: Int
        public let bodySHA256: String
        /// Its first 64 KiB.
        public let body: Data
        /// Requests with the same number came over the same connection.
        public let connection: Int
        /// `https`, `http`, `proxy`, or the name that ``listen(_:chain:clientAuthority:atMost:)`` was given.
        public let listener: String
        /// Of the client's certificate: "commonName=…".
        public let clientSubject: String?

        public subscript(_ name: String) -> String? {
            headers.first { $0[0].lowercased() == name.lowercased() }?[1]
        }
    }

    public init() throws {
        let parent = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(parent)/protectfs-server-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure(description: "mkdtemp: \(errno)") }
        let directory = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        self.directory = directory
        for (name, content) in [
            ("server", PackageResources.server_py), ("answers", PackageResources.answers_py),
            ("authentication", PackageResources.authentication_py), ("ntlm", PackageResources.ntlm_py),
            ("certificates", PackageResources.certificates_py), ("issuing", PackageResources.issuing_py),
            ("proxy", PackageResources.proxy_py),
        ] {
            try Data(content).write(to: URL(fileURLWithPath: "\(directory)/\(name).py"))
        }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
        process.arguments = ["\(directory)/server.py", directory]
        process.environment = ["PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"]
        let (input, output) = (Pipe(), Pipe())
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        let stage = Stage(process: process, commands: input.fileHandleForWriting, answers: output.fileHandleForReading)
        try Self.certificates.withLock { made in
            for (name, content) in made { try content.write(to: URL(fileURLWithPath: "\(directory)/\(name)")) }
            guard made.isEmpty else { return }
            try Self.tell(stage, "certificate", ["authority", ["authority": true]])
            let names = ["localhost", "127.0.0.1", "example.test", "other.test"]
            try Self.tell(stage, "certificate", ["server", ["issuer": "authority", "names": names]])
            for name in ["authority", "server"].flatMap({ name in ["pem", "key", "p12"].map { "\(name).\($0)" } }) {
                made[name] = try Data(contentsOf: URL(fileURLWithPath: "\(directory)/\(name)"))
            }
        }
        port = try Self.tell(stage, "listen", ["https", "https"])
        plainPort = try Self.tell(stage, "listen", ["http", "http"])
        proxyPort = try Self.tell(stage, "listen", ["proxy", "proxy"])
        socksPort = try Self.tell(stage, "listen", ["socks", "socks"])
        self.stage = Mutex(stage)
    }

    deinit {
        stage.withLock { stage in
            try? stage.commands.close()
            stage.process.waitUntilExit()
        }
        try? FileManager.default.removeItem(atPath: directory)
    }

    /// `https` at the server's own port, unless another one is given.
    public func url(_ path: String, scheme: String = "https", host: String = "localhost", port: Int? = nil) -> URL {
        URL(string: "\(scheme)://\(host):\(port ?? (scheme == "https" ? self.port : plainPort))\(path)")!
    }

    /// The certificate, in PEM, of the authority that has signed the server's.
    public var authority: Data { get throws { try certificate("authority") } }

    /// A certificate that was made, in PEM.
    public func certificate(_ name: String) throws -> Data {
        try Data(contentsOf: URL(fileURLWithPath: "\(directory)/\(name).pem"))
    }

    // MARK: what it answers

    /// What requests for `target` get, one after another; the last answer stays. Without one: 404.
    public func answer(_ target: String, _ answers: Answer...) throws {
        try tell("script", [target] + answers.map(Self.object))
    }

    /// Whoever asks for a path that begins so must authenticate in one of these ways.
    public func guardPaths(_ prefix: String, _ schemes: Scheme...) throws {
        let plain = try schemes.map { scheme in
            var object = try Self.object(scheme) as? [String: Any] ?? [:]
            if scheme.realm.count == 1 { object["realm"] = scheme.realm[0] }
            return object
        }
        try tell("guard", [prefix] + plain)
    }

    /// The same for one scheme, whose password is given with the lowest bit of each byte turned: it is nowhere in this process.
    public func guardPathsWithMasked(_ prefix: String, _ scheme: String, _ user: String, _ masked: [UInt8]) throws {
        try tell("guard", [prefix, ["scheme": scheme, "user": user, "masked": masked.map { Int($0) }]])
    }

    /// Answers that are held up, go on.
    public func release() throws { try tell("release") }

    /// Waits until as many answers have been held up as that; false if they are not within a minute. Never blocks a thread for long:
    /// there are few of them for all the tests that run at once.
    public func waitUntilHeld(_ count: Int = 1) async throws -> Bool {
        for _ in 0..<6000 {
            let now: Int = try tell("held")
            if now >= count { return true }
            try await Task.sleep(for: .milliseconds(10))
        }
        return false
    }

    // MARK: where it listens

    /// Listens at a further port with other certificates: names that were made, or paths without `.pem` and `.key`.
    ///
    /// - Parameters:
    ///   - clientAuthority: who must have signed the client's certificate; without one none is asked for.
    ///   - atMost: the highest version of TLS, "1.1" or "1.2".
    public func listen(
        _ name: String, chain: [String], clientAuthority: String? = nil, atMost: String? = nil
    ) throws -> Int {
        var options: [String: Any] = ["chain": chain]
        options["clientAuthority"] = clientAuthority
        options["atMost"] = atMost
        return try tell("listen", [name, "https", 0, options])
    }

    /// Refuses connections to `https`, `http`, … from now on, and breaks off those that there are.
    public func close(_ listener: String) throws { try tell("close", [listener]) }
    /// Listens again, at the port where it did.
    public func reopen(_ listener: String) throws {
        let port = ["https": port, "http": plainPort, "proxy": proxyPort, "socks": socksPort][listener]
        let _: Int = try tell("listen", [listener, listener, port ?? 0])
    }

    /// Makes a certificate; options as certificates.py says. Returns its path without `.pem`, `.key` and `.p12`.
    @discardableResult
    public func makeCertificate(_ name: String, _ options: [String: any Sendable]) throws -> String {
        try tell("certificate", [name, options])
    }

    // MARK: what it has seen

    public func requests() throws -> [Request] {
        let list: [Any] = try tell("requests")
        return try JSONDecoder().decode([Request].self, from: JSONSerialization.data(withJSONObject: list))
    }
    /// Every byte of HTTP that has reached it, understood or not.
    public func received() throws -> Data { try Data(contentsOf: URL(fileURLWithPath: "\(directory)/received")) }
    /// How every TLS handshake ended: empty, or why it failed.
    public func handshakes() throws -> [String] { try tell("handshakes") }
    /// How many connections were made, to any port.
    public func accepted() throws -> Int { try tell("accepted") }
    /// Whom the SOCKS proxy was asked for: "name localhost:443" or "address …".
    public func proxied() throws -> [String] { try tell("proxied") }

    /// What RFC 7616 §3.4.1 makes of these, in the server's own reckoning.
    public func digestResponse(
        algorithm: String, user: String, realm: String, password: String, method: String, uri: String, nonce: String,
        count: String, cnonce: String, qop: String
    ) throws -> String {
        try tell("digest", [algorithm, user, realm, password, method, uri, nonce, count, cnonce, qop])
    }

    private static func object(_ value: some Encodable) throws -> Any {
        try JSONSerialization.jsonObject(with: JSONEncoder().encode(value))
    }

    private func tell(_ name: String, _ arguments: [Any] = []) throws { let _: Any = try tell(name, arguments) }

    private func tell<Result>(_ name: String, _ arguments: [Any] = []) throws -> Result {
        let line = try Self.line(name, arguments)
        let answer = try stage.withLock { stage in try Self.exchange(stage, line) }
        return try Self.result(of: answer, name)
    }

    private static func tell(_ stage: Stage, _ name: String, _ arguments: [Any]) throws {
        let _: Any = try tell(stage, name, arguments)
    }

    private static func tell<Result>(_ stage: Stage, _ name: String, _ arguments: [Any]) throws -> Result {
        try result(of: exchange(stage, line(name, arguments)), name)
    }

    private static func line(_ name: String, _ arguments: [Any]) throws -> Data {
        try JSONSerialization.data(withJSONObject: [name] + arguments) + Data("\n".utf8)
    }

    private static func exchange(_ stage: Stage, _ line: Data) throws -> Data {
        try stage.commands.write(contentsOf: line)
        var answer = Data()
        while answer.last != UInt8(ascii: "\n") {
            let more = stage.answers.availableData
            guard !more.isEmpty else {
                throw Failure(description: "the server has ended; is python3-cryptography installed?")
            }
            answer += more
        }
        return answer
    }

    private static func result<Result>(of answer: Data, _ name: String) throws -> Result {
        let object = try JSONSerialization.jsonObject(with: answer) as? [String: Any] ?? [:]
        if let error = object["error"] as? String { throw Failure(description: error) }
        guard let result = (object["result"] ?? NSNull()) as? Result else {
            throw Failure(description: "\(name): unexpected \(object)")
        }
        return result
    }
}
