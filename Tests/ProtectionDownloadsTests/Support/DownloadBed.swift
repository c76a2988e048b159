import Foundation
import KeyQuota
import ProtectionKeys
import SystemPackage
import TestScratch
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// A keybag, a directory for downloads, and a server that does what a test says.
final class DownloadBed: Sendable {
    static let passcode = "a passcode for tests"

    let keybag: Keybag
    let server = FakeServer()
    private let root: FilePath

    /// - Parameter parent: where it all is; nil: where temporary files are.
    init(_ state: ProtectionState = .unlocked, in parent: FilePath? = nil) throws {
        KeyQuota.waitForRoom()
        _ = isolatedHome
        root = try scratch("protectfs-downloads", in: parent)
        try FileManager.default.createDirectory(
            atPath: root.appending("files").string, withIntermediateDirectories: false)
        keybag = try Keybag.create(
            at: root.appending("keybag"), passcode: Self.secret(Self.passcode), iterations: 1_000,
            deviceKey: root.appending("device-key"))
        if state != .beforeFirstUnlock { try unlock() }
        if state == .locked { try keybag.lock() }
    }

    deinit {
        try? keybag.ring.evict(everything: true)
        try? FileManager.default.removeItem(atPath: root.string)
    }

    /// Where downloads go.
    var directory: FilePath { root.appending("files") }
    func path(_ name: String) -> FilePath { directory.appending(name) }

    static func secret(_ text: String) -> SecretBytes {
        SecretBytes(byteCount: text.utf8.count) { $0.copyBytes(from: text.utf8) }
    }

    func unlock() throws { try keybag.unlock(passcode: Self.secret(Self.passcode)) }
    func forgetEverything() throws { try keybag.ring.evict(everything: true) }

    /// All names among the downloads, hidden ones too.
    func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: directory.string).sorted() }

    /// A list as another process would open it.
    ///
    /// - Parameter memory: of small files nothing is kept in memory alone, so that they go the way of large ones.
    func queue(total: Int = 4, perHost: Int = 4, memory: Int = 0) throws -> DownloadQueue {
        var connections = DownloadConnections()
        (connections.total, connections.perHost, connections.memory) = (total, perHost, memory)
        return try DownloadQueue(keybag, transport: server, connections: connections)
    }

    /// Asks for what the server has.
    func request(_ name: String = "file") -> DownloadRequest {
        var request = DownloadRequest(URL(string: "https://server.test/\(name)")!, to: path(name))
        request.retry.firstDelay = .milliseconds(10)
        request.retry.maximumFailures = 4
        return request
    }

    /// The plaintext of a file.
    func contents(_ name: String = "file") throws -> [UInt8] {
        let file = try ProtectedFile.open(path(name), keybag: keybag)
        return Array(try file.read(Int(try file.size()), at: 0))
    }

    /// The SHA-256 of its plaintext, however long it is.
    func digest(_ name: String = "file") throws -> [UInt8] {
        var digest = try RunningDigest(.sha256)
        let file = try ProtectedFile.open(path(name), keybag: keybag)
        for start in stride(from: 0, to: try file.size(), by: 1 << 20) {
            try digest.update(Array(try file.read(1 << 20, at: start)))
        }
        return try digest.finish()
    }

    func protectionClass(_ name: String = "file") throws -> ProtectionClass {
        try ProtectedFileInfo(of: path(name)).protectionClass
    }

    /// Runs the list until nothing goes on by itself.
    func runUntilIdle() async throws { try await queue().run(untilIdle: true) }
}

extension DownloadBed {
    /// Adds, runs until nothing goes on by itself, and looks.
    func result(_ request: DownloadRequest? = nil, memory: Int = 0) async throws -> Download {
        let queue = try queue(memory: memory)
        let download = try await queue.add(request ?? self.request())
        try await queue.run(untilIdle: true)
        return try await queue.download(download.id)
    }
}

/// Of how many bytes small files may have so that they are kept in memory: none may, and those of most tests.
let memories = [0, WriteBuffer.capacity]

/// Other bytes for each seed, the same each time.
func noise(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
    var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
    var bytes = [UInt8](repeating: 0, count: count)
    for index in 0..<count {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        bytes[index] = UInt8(truncatingIfNeeded: state >> 24)
    }
    return bytes
}

extension DownloadBed {
    /// Runs a list until the server has sent so many bytes of one answer, and ends it there.
    func run(_ queue: DownloadQueue, untilSent count: Int) async throws {
        // It begins when the server knows where to stop: it might have everything before.
        let (start, begin) = AsyncStream<Void>.makeStream()
        let running = Task {
            for await _ in start { break }
            try await queue.run()
        }
        server.beforeEachPiece { sent in
            guard sent >= count else { return }
            running.cancel()
            try await Task.sleep(for: .seconds(20))
        }
        begin.yield()
        try await running.value
    }
}
