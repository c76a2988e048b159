import CCurl
import FaultServer
import Foundation
import ProtectionKeys
import Synchronization
import Testing

@testable import TrustedHTTP

/// What is given back stays as it was there, for a while.
private let keepsMemory = dlsym(nil, "__asan_init") != nil || dlsym(nil, "__tsan_init") != nil
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
        "A password is nowhere in memory once the client has gone", .enabled(if: !keepsMemory, "\(sanitizer)"),
        arguments: [AuthenticationMethod.basic, .digest, .ntlm])
    func passwords(method: AuthenticationMethod) async throws {
        // A process of its own, in which nobody else has the password.
        switch method {
        case .basic: await #expect(processExitsWith: .success) { try await PasswordSearch.run(.basic) }
        case .digest: await #expect(processExitsWith: .success) { try await PasswordSearch.run(.digest) }
        default: await #expect(processExitsWith: .success) { try await PasswordSearch.run(.ntlm) }
        }
    }

    @Test(
        "Nor is a token", .enabled(if: Nginx.isThere, "there is no nginx"), .enabled(if: !keepsMemory, "\(sanitizer)"))
    func tokens() async { await #expect(processExitsWith: .success) { try await PasswordSearch.runToken() } }
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

    struct Found: Error { let place: String }
    struct Refused: Error {}
    /// The search itself is no good.
    struct NotFound: Error {}

    static func run(_ method: AuthenticationMethod) async throws {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: 100_000, alignment: 1)
        for (index, byte) in masked.enumerated() { copy[90_000 + index] = byte ^ 1 }
        // On a thread that stays: what a search finds must not be left on its stack, for the next one to find.
        let (hasSearched, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let isFound = Mutex(false)
        Thread.detachNewThread {
            isFound.withLock { $0 = (try? place()) != nil }
            hasSearched.signal()
            mayEnd.wait()
        }
        defer { mayEnd.signal() }
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                hasSearched.wait()
                continuation.resume()
            }
        }
        guard isFound.withLock({ $0 }) else { throw NotFound() }
        SecretBytes.wipe(copy)
        copy.deallocate()
        if let place = try place() { throw Found(place: place) }

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
        if let place = try place() { throw Found(place: place) }
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
    private static func place() throws -> String? {
        let memory = open("/proc/self/mem", O_RDONLY)
        defer { close(memory) }
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4096)
        defer {
            SecretBytes.wipe(piece)
            piece.deallocate()
        }
        for line in try String(contentsOfFile: "/proc/self/maps", encoding: .utf8).split(separator: "\n") {
            let fields = line.split(separator: " ")
            let bounds = fields[0].split(separator: "-").compactMap { UInt64($0, radix: 16) }
            guard fields[1].hasPrefix("rw"), bounds.count == 2 else { continue }
            var offset = bounds[0]
            while offset < bounds[1] {
                let count = pread(memory, piece.baseAddress, min(piece.count, Int(bounds[1] - offset)), off_t(offset))
                guard count > 0 else { break }
                if offset > UInt(bitPattern: piece.baseAddress)
                    || offset + UInt64(count) <= UInt(bitPattern: piece.baseAddress),
                    let index = password(in: UnsafeRawBufferPointer(start: piece.baseAddress, count: count))
                {
                    return "\(line) at \(offset + UInt64(index) - bounds[0])"
                }
                offset += UInt64(max(1, count - (offset + UInt64(count) < bounds[1] ? 32 : 0)))
            }
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
                // Byte by byte: a word that was compared stays on this thread's stack, and is found by the next search on another.
                var same = 1
                while same < 8, bytes[index + same] ^ 1 == masked[start + same] { same += 1 }
                if same == 8 { return index }
                index += 1
            }
        }
        return nil
    }
}
