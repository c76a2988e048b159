import FaultServer
import Foundation
import Synchronization
import Testing

@testable import TrustedHTTP

@Suite("Bodies that are read while they are sent")
struct BodyFeedTests {
    private let server = Result { try FaultServer() }
    private let client = HTTPClient()

    @Test("One that is slow to read holds up no other transfer of its engine")
    func slow() async throws {
        let server = try server.get()
        try server.answer("/up", Answer(status: 200, "ok"))
        try server.answer("/small", Answer(status: 200, "inside"))
        let body = PatternBody(length: 100_000, isOpen: false)
        var upload = try server.request("/up")
        (upload.method, upload.body) = ("PUT", body)
        async let sent = client.send(upload)
        while !body.wasAsked { try await Task.sleep(for: .milliseconds(1)) }
        // The reader stands still until this one has come.
        #expect(try await client.send(server.request("/small")).body == Array("inside".utf8))
        body.open()
        #expect(try await sent.response.status == 200)
    }

    @Test("Every byte arrives, at its place", arguments: [0, 1, 65_536, 1_048_576, 3_000_001])
    func whole(length: Int) async throws {
        let server = try server.get()
        try server.answer("/echo", Answer(status: 200, "ok"))
        var upload = try server.request("/echo")
        (upload.method, upload.body) = ("PUT", PatternBody(length: UInt64(length)))
        #expect(try await client.send(upload).response.status == 200)
        let seen = try server.requests().last
        #expect(seen?.bodyCount == length)
        let digest = try LibSSL.sha256(Answer.pattern(0..<length))
        #expect(seen?.bodySHA256 == Hexadecimal.text(digest))
    }

    @Test("A body that cannot be read ends the transfer with its error")
    func broken() async throws {
        let server = try server.get()
        try server.answer("/up", Answer(status: 200, "ok"))
        var upload = try server.request("/up")
        (upload.method, upload.body) = ("PUT", PatternBody(length: 3_000_000, failsAt: 2_000_000))
        await #expect {
            _ = try await client.send(upload)
        } throws: { error in
            if case HTTPError.refused(by: is PatternBody.Broken) = error { true } else { false }
        }
    }

    @Test("One that ends early ends the transfer: the server would wait for the rest", arguments: [0, 700, 2_000_000])
    func short(count: Int) async throws {
        struct Short: HTTPBody {
            let count: Int
            let length: UInt64 = 3_000_000
            func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) -> Int {
                max(0, min(count - Int(offset), buffer.count))
            }
        }
        let server = try server.get()
        try server.answer("/up", Answer(status: 200, "ok"))
        var upload = try server.request("/up")
        (upload.method, upload.body) = ("PUT", Short(count: count))
        await #expect {
            _ = try await client.send(upload)
        } throws: { error in
            if case HTTPError.refused(by: HTTPError.malformedRequest) = error { true } else { false }
        }
    }

    @Test("After a rewind it begins where it is told to, and bytes read before do not count")
    func rewind() async throws {
        let reader = BodyFeed(PatternBody(length: 300_000)) {}
        #expect(reader.start())
        defer { reader.end() }
        var seen: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 70_000)
        for offset in [0, 200_000, 10] {
            reader.rewind(to: UInt64(offset))
            seen = []
            reading: while seen.count < 90_000 {
                switch piece.withUnsafeMutableBytes({ reader.give(into: $0) }) {
                case .bytes(let count): seen += piece[..<count]
                case .notYet: try await Task.sleep(for: .milliseconds(1))
                case .failed: break reading
                }
            }
            #expect(seen == Answer.pattern(offset..<offset + seen.count))
        }
    }
}

/// A file that is read as slowly as a test says.
private final class PatternBody: HTTPBody {
    struct Broken: Error {}

    let length: UInt64
    private let failure: UInt64?
    private let gate = DispatchSemaphore(value: 0)
    private let isOpen: Atomic<Bool>
    private let hasBegun = Atomic(false)

    init(length: UInt64, isOpen: Bool = true, failsAt failure: UInt64? = nil) {
        (self.length, self.failure) = (length, failure)
        self.isOpen = Atomic(isOpen)
    }

    var wasAsked: Bool { hasBegun.load(ordering: .relaxed) }
    func open() { gate.signal() }

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws -> Int {
        hasBegun.store(true, ordering: .relaxed)
        if !isOpen.exchange(true, ordering: .relaxed) { gate.wait() }
        if let failure, offset + UInt64(buffer.count) > failure { throw Broken() }
        let bytes = Answer.pattern(Int(offset)..<Int(min(length, offset + UInt64(buffer.count))))
        buffer.copyBytes(from: bytes)
        return bytes.count
    }
}
