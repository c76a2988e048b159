import CCurl
import FaultServer
import Foundation
import ProtectionKeys
import Synchronization
import TestEffort
import Testing

@testable import TrustedHTTP

private let sanitizer = "a sanitizer keeps memory that was given back"

@Suite("Engines")
struct EngineTests {
    @Test("One that nobody needs ends by itself")
    func idle() async throws {
        let hasEnded = Mutex(false)
        let engine = TransferEngine(idleTime: 10) { _ in hasEnded.withLock { $0 = true } }
        try #require(engine != nil)
        for _ in 0..<1000 where !hasEnded.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(10)) }
        #expect(hasEnded.withLock { $0 })
    }

    @Test("One that is retired by whoever is told of its last transfer ends at once")
    func retiredAtTheEnd() async throws {
        let hasEnded = Mutex(false)
        let engine = try #require(
            TransferEngine(idleTime: 3_600_000) { _ in hasEnded.withLock { $0 = true } })
        let url = try #require(URL(string: "http://localhost:9/"))
        let origin = try #require(Origin(scheme: "http", host: "localhost", port: 9))
        let plan = Exchange.Plan(request: HTTPRequest(url), origin: origin)
        let exchange = Exchange(
            plan, TLSHandshake(plan), try #require(EasyHandle()), receiver: Sink(), wakeEngine: { _ in },
            whenDone: { _ in engine.retire() })
        #expect(engine.add(exchange))
        engine.cancel(exchange)
        for _ in 0..<1000 where !hasEnded.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(10)) }
        #expect(hasEnded.withLock { $0 })
    }

    @Test("A process ends well while its connections are being closed")
    func exit() async {
        // Each time somewhere else: between the engine's thread and exit(3) nothing is agreed.
        for _ in 0..<8 { await #expect(processExitsWith: .success) { try await EndsAtOnce.run() } }
    }

    @Test("libcurl's memory keeps its content when it moves")
    func memory() throws {
        var block = try #require(protectfs_curl_realloc(nil, 10))
        memset(block, 7, 10)
        for size in [100, 100_000, 5, 1, 70_000] {
            block = try #require(protectfs_curl_realloc(block, size))
            #expect(block.load(as: UInt8.self) == 7)
        }
        protectfs_curl_free(block)
        protectfs_curl_free(nil)
    }

    @Test(
        "A password is nowhere in memory once the client has gone", .enabled(if: !Effort.isSanitized, "\(sanitizer)"),
        arguments: [AuthenticationMethod.basic, .digest, .ntlm])
    func passwords(method: AuthenticationMethod) async throws {
        // A process of its own, in which nobody else has the password.
        switch method {
        case .basic: await #expect(processExitsWith: .success) { try await PasswordSearch.run(.basic) }
        case .digest: await #expect(processExitsWith: .success) { try await PasswordSearch.run(.digest) }
        default: await #expect(processExitsWith: .success) { try await PasswordSearch.run(.ntlm) }
        }
        FoundPlace.record(method)
    }

    @Test(
        "Nor is a token", .enabled(if: Nginx.isThere, "there is no nginx"),
        .enabled(if: !Effort.isSanitized, "\(sanitizer)"))
    func tokens() async {
        await #expect(processExitsWith: .success) { try await PasswordSearch.runToken() }
        FoundPlace.record("token")
    }
}

/// Where a process of its own has found something: in a file, because nothing is seen of what it prints.
private enum FoundPlace {
    private static func path(of process: pid_t) -> String { "\(NSTemporaryDirectory())/protectfs-found-\(process)" }

    /// In the process of its own.
    static func note(_ place: String) {
        try? place.write(toFile: path(of: getppid()), atomically: true, encoding: .utf8)
    }

    /// In the test.
    static func record(_ what: some Any) {
        let path = path(of: getpid())
        guard let place = try? String(contentsOfFile: path, encoding: .utf8) else { return }
        try? FileManager.default.removeItem(atPath: path)
        Issue.record("\(what): \(place)")
    }
}

/// Lets go of connections, and ends.
private enum EndsAtOnce {
    static func run() async throws {
        let server = try FaultServer()
        try server.answer("/", Answer(status: 200, "inside"))
        do {
            // Each with an engine of its own.
            let clients = (0..<8).map { _ in HTTPClient() }
            for client in clients { _ = try await client.send(try server.request("/")) }
        }
        withExtendedLifetime(server) { Glibc.exit(EXIT_SUCCESS) }
    }
}

/// Makes a request with a password, and looks for it in the process's memory.
private enum PasswordSearch {
    /// Every byte with its lowest bit turned: what is looked for is not in the program that looks.
    private static let masked = Array("x7Kq2Zp9Wm4Lc8Rt1Vb6Ny3Hd5Gf0JsXzQwEkTuAoPiBgMnC".utf8)

    private static func password() -> CredentialSecret {
        CredentialSecret(
            SecretBytes(byteCount: masked.count) { slot in
                for (index, byte) in masked.enumerated() { slot[index] = byte ^ 1 }
            })
    }

    struct Found: Error {}
    struct Refused: Error {}
    /// The search itself is no good.
    struct NotFound: Error {}

    static func run(_ method: AuthenticationMethod) async throws {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: 100_000, alignment: 1)
        for (index, byte) in masked.enumerated() { copy[90_000 + index] = byte ^ 1 }
        guard try Self.place() != nil else { throw NotFound() }
        SecretBytes.wipe(copy)
        copy.deallocate()
        if let place = try place() {
            FoundPlace.note("before anything was sent: " + place)
            throw Found()
        }

        let server = try FaultServer()
        try server.answer("/", Answer(status: 200, "inside"))
        try server.guardPathsWithMasked("/", method.rawValue, "user", masked)
        let space = ProtectionSpace(host: "localhost", port: server.port)
        do {
            let (client, store) = (HTTPClient(), SessionCredentials())
            await store.keep(Credential(.password(user: "user", password())), for: space)
            var request = try server.request("/")
            request.authentication = HTTPAuthentication([space], credentials: store)
            guard try await client.send(request).response.status == 200 else { throw Refused() }
        }
        try await expectThatItGoes()
    }

    /// Waits until the engine's thread has let its connections go.
    private static func expectThatItGoes() async throws {
        for _ in 0..<1000 {
            guard try place() != nil else { return }
            try await Task.sleep(for: .milliseconds(20))
        }
        if let place = try place() {
            FoundPlace.note(place)
            throw Found()
        }
    }

    /// The same for a token, which goes out unasked, to a server that would rather speak HTTP/2: libnghttp2 wipes nothing.
    static func runToken() async throws {
        struct Token: BearerTokens {
            func token(for space: ProtectionSpace, rejected: Bool) -> CredentialSecret? { PasswordSearch.password() }
        }
        let server = try FaultServer()
        try Data("inside".utf8).write(to: URL(fileURLWithPath: "\(server.directory)/file"))
        let nginx = try Nginx(serving: server.directory, certificate: "\(server.directory)/server")
        do {
            var request = HTTPRequest(nginx.url("/file"))
            request.trust = try server.trust
            request.authentication = HTTPAuthentication(
                [ProtectionSpace(host: "localhost", port: nginx.port)], tokens: Token())
            guard try await HTTPClient().send(request).response.status == 200 else { throw NotFound() }
        }
        try await expectThatItGoes()
    }

    /// Where eight bytes of it are in memory that can be read: the line of /proc/self/maps, and how far from there. Nil: nowhere.
    private static func place() throws -> String? { try search.withLock { try $0.place() } }

    private static let search = Mutex(SearchThread(search: Self.place(below:)))

    /// - Parameter frame: where the stack of this thread is in use; nothing below it, in the same mapping, is looked at.
    private static func place(below frame: UInt64) throws -> String? {
        let memory = open("/proc/self/mem", O_RDONLY)
        defer { close(memory) }
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4096)
        defer {
            SecretBytes.wipe(piece)
            piece.deallocate()
        }
        let own = UInt64(UInt(bitPattern: piece.baseAddress))
        for line in try String(contentsOfFile: "/proc/self/maps", encoding: .utf8).split(separator: "\n") {
            let fields = line.split(separator: " ")
            let bounds = fields[0].split(separator: "-").compactMap { UInt64($0, radix: 16) }
            guard fields[1].hasPrefix("rw"), bounds.count == 2 else { continue }
            var parts = [bounds[0]..<bounds[1]]
            let stack = bounds[0]..<(bounds[0]..<bounds[1] ~= frame ? frame : bounds[0])
            for hidden in [stack, own..<own + UInt64(piece.count)] {
                parts = parts.flatMap { part in
                    [part.clamped(to: 0..<hidden.lowerBound), part.clamped(to: hidden.upperBound..<UInt64.max)]
                }
            }
            for part in parts where !part.isEmpty {
                if let place = password(in: part, of: memory, by: piece) { return "\(line) at \(place - bounds[0])" }
            }
        }
        return nil
    }

    /// The address of eight bytes of it in a part of memory.
    private static func password(
        in part: Range<UInt64>, of memory: Int32, by piece: UnsafeMutableRawBufferPointer
    ) -> UInt64? {
        var offset = part.lowerBound
        while offset < part.upperBound {
            let wanted = min(piece.count, Int(part.upperBound - offset))
            let count = pread(memory, piece.baseAddress, wanted, off_t(offset))
            guard count > 0 else { return nil }
            if let index = password(in: UnsafeRawBufferPointer(start: piece.baseAddress, count: count)) {
                return offset + UInt64(index)
            }
            // What lies across the end of this piece is whole in the next one.
            offset += UInt64(max(1, count - (offset + UInt64(count) < part.upperBound ? 32 : 0)))
        }
        return nil
    }

    /// Where any eight bytes of it are that begin at a multiple of eight: memory that was given back loses its first 16.
    private static func password(in bytes: UnsafeRawBufferPointer) -> Int? {
        for start in stride(from: 0, to: masked.count - 7, by: 8) {
            var index = 0
            while let found = memchr(bytes.baseAddress! + index, Int32(masked[start] ^ 1), bytes.count - index) {
                index = UnsafeRawPointer(found) - bytes.baseAddress!
                guard bytes.count - index >= 8 else { break }
                var same = 1
                while same < 8, bytes[index + same] ^ 1 == masked[start + same] { same += 1 }
                if same == 8 { return index }
                index += 1
            }
        }
        return nil
    }
}

/// A thread that searches, and does not look at its own stack: what it compared may have stayed there.
private struct SearchThread: Sendable {
    private let asked = DispatchSemaphore(value: 0)
    private let answered = DispatchSemaphore(value: 0)
    private let answer = Answer()

    /// The last answer; the semaphores say whose turn it is.
    private final class Answer: @unchecked Sendable { var result: Result<String?, any Error> = .success(nil) }

    init(search: @escaping @Sendable (UInt64) throws -> String?) {
        Thread.detachNewThread { [asked, answered, answer] in
            var mark = 0
            withUnsafePointer(to: &mark) { frame in
                while true {
                    asked.wait()
                    answer.result = Result { try search(UInt64(UInt(bitPattern: frame))) }
                    answered.signal()
                }
            }
        }
    }

    func place() throws -> String? {
        asked.signal()
        answered.wait()
        return try answer.result.get()
    }
}
