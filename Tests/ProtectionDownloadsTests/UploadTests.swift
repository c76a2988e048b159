import FaultServer
import Foundation
import ProtectionKeys
import Synchronization
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// Takes what is sent, piece by piece, and says yes.
final class Taker: DownloadTransport {
    private let taken = Mutex<[[UInt8]]>([])
    private let trusted = Mutex<[ServerTrust]>([])
    /// Called before every piece, with how much of it has come.
    private let beforeEachPiece: @Sendable (Int) throws -> Void

    init(beforeEachPiece: @escaping @Sendable (Int) throws -> Void = { _ in }) {
        self.beforeEachPiece = beforeEachPiece
    }

    /// Whole bodies that were acknowledged.
    var bodies: [[UInt8]] { taken.withLock { $0 } }
    /// Who was to be believed, each time.
    var trusts: [ServerTrust] { trusted.withLock { $0 } }

    func transfer(_ request: HTTPRequest, to receiver: any HTTPReceiver) async throws(HTTPError) -> HTTPResponse {
        let response = HTTPResponse(status: 204, headers: [], url: request.url, version: "1.1")
        trusted.withLock { $0.append(request.trust) }
        do {
            guard let body = request.body else { throw CancellationError() }
            var bytes: [UInt8] = []
            var piece = [UInt8](repeating: 0, count: 50_000)
            while bytes.count < Int(body.length) {
                try beforeEachPiece(bytes.count)
                let count = try piece.withUnsafeMutableBytes { try body.read(into: $0, at: UInt64(bytes.count)) }
                bytes += piece[..<count]
            }
            taken.withLock { $0.append(bytes) }
            try receiver.begin(response)
        } catch {
            throw .refused(by: error)
        }
        return response
    }
}

@Suite struct UploadTests {
    private let bytes = noise(300_000)

    private func digest(_ bytes: [UInt8]) throws -> String { Hexadecimal.text(try Digest.sha256(bytes)) }

    // MARK: what arrives

    @Test(
        "The server gets the exact bytes, and the file stays as it is",
        arguments: [0, 1, 4096, 300_000], [DownloadRequest.Upload.put, .post])
    func exact(length: Int, method: DownloadRequest.Upload) async throws {
        let (bed, server) = (try DownloadBed(), try FaultServer())
        try bed.put(Array(bytes[..<length]), as: .complete)
        try server.answer("/file", Answer(status: 201, "made"))
        let upload = try await bed.run(bed.upload(server, by: method))
        #expect(upload.state == .finished, "\(String(describing: upload.failure))")
        #expect(upload.file?.length == UInt64(length) && upload.received == UInt64(length))
        let seen = try server.requests()
        #expect(seen.count == 1 && seen[0].method == method.rawValue)
        #expect(try seen[0].bodyCount == length && seen[0].bodySHA256 == digest(Array(bytes[..<length])))
        #expect((seen[0]["Idempotency-Key"] == "\"\(upload.id)\"") == (method == .post))
        #expect(try bed.contents() == Array(bytes[..<length]) && bed.protectionClass() == .complete)
        #expect(try bed.names() == ["file"])
        // Nor is it sent by the next one who runs the list.
        try await DownloadQueue(bed.keybag).run(untilIdle: true)
        #expect(try server.requests().count == 1)
    }

    @Test("A challenge is answered, and the body arrives once more, whole")
    func challenged() async throws {
        let (bed, server) = (try DownloadBed(), try FaultServer())
        try bed.put(bytes, as: .completeUnlessOpen)
        try server.guardPaths("/", .digest("user", "right"))
        try server.answer("/file", Answer(status: 200))
        var request = try bed.upload(server)
        request.credentials = [try .password("user", "right", at: server)]
        #expect(try await bed.run(request).state == .finished)
        #expect(try server.requests().last?.bodySHA256 == digest(bytes))
        #expect(try bed.keptCredentials == 0)
    }

    @Test("Tried again after 503; refused for good by 403; credentials missing")
    func statuses() async throws {
        let (bed, server) = (try DownloadBed(), try FaultServer())
        try bed.put(bytes, as: .complete)
        try server.answer("/file", Answer(status: 503), Answer(status: 200))
        #expect(try await bed.run(bed.upload(server)).state == .finished)
        #expect(try server.requests().count == 2)
        try server.answer("/file", Answer(status: 403))
        #expect(try await bed.run(bed.upload(server)).failure?.kind == .credentials)
        try server.guardPaths("/", .basic("user", "right"))
        #expect(try await bed.run(bed.upload(server)).failure?.kind == .credentials)
    }

    @Test("A connection that is lost before the answer: again. Lost behind its first bytes: it was acknowledged")
    func lostConnections() async throws {
        let (bed, server) = (try DownloadBed(), try FaultServer())
        try bed.put(bytes, as: .complete)
        let answer = Answer(status: 200, "taken")
        try server.answer("/file", answer.with(\.cutHeadAfter, 5).with(\.end, .close), answer)
        #expect(try await bed.run(bed.upload(server)).state == .finished)
        #expect(try server.requests().count == 2)
        try server.answer("/file", answer.with(\.cutAfter, 2).with(\.end, .close), answer)
        #expect(try await bed.run(bed.upload(server)).state == .finished)
        #expect(try server.requests().count == 3)
    }

    @Test(
        "An answer counts only from a server that got the file, or after a 303 within that server",
        arguments: [
            (DownloadRequest.Upload.put, 303, false, true), (.put, 303, true, false), (.post, 301, true, false),
            (.post, 301, false, false), (.post, 302, false, false), (.post, 303, false, true),
            (.post, 302, true, false), (.post, 303, true, false), (.put, 307, false, true),
            (.put, 307, true, false), (.post, 308, true, false),
        ])
    func redirected(
        method: DownloadRequest.Upload, status: Int, isElsewhere: Bool, isAcknowledged: Bool
    ) async throws {
        let (bed, server) = (try DownloadBed(), try FaultServer())
        try bed.put(bytes, as: .complete)
        let other = try server.listen("other", chain: ["server"])
        let place = isElsewhere ? server.url("/there", port: other).absoluteString : "/there"
        try server.answer("/file", .redirect(to: place, status: status))
        try server.answer("/there", Answer(status: 200, "welcome"))
        let upload = try await bed.run(bed.upload(server, by: method))
        #expect(upload.state == (isAcknowledged ? .finished : .failed), "\(String(describing: upload.failure))")
        #expect(isAcknowledged || upload.failure?.kind == .refused)
        let seen = try server.requests()
        #expect(seen.filter { $0.listener == "https" }.first?.bodyCount == bytes.count)
        #expect(seen.filter { $0.listener == "other" }.allSatisfy { $0.bodyCount == 0 })
        #expect(try bed.contents() == bytes)
    }

    @Test("An upload of a file that is not protected is refused when it is added")
    func notProtected() async throws {
        let (bed, server) = (try DownloadBed(), try FaultServer())
        try Data("plain".utf8).write(to: URL(fileURLWithPath: bed.path("file").string))
        await #expect(throws: DownloadError.self) { try await bed.run(bed.upload(server)) }
        var request = try bed.upload(server)
        request.checks = [.length(5)]
        #expect(throws: DownloadError.self) { try request.check() }
    }

    // MARK: locks

    private func request(_ bed: DownloadBed) -> DownloadRequest {
        DownloadRequest(uploading: bed.path("file"), to: URL(string: "https://server.test/file")!)
    }

    @Test("Locked in the middle: an unless-open file goes on, a complete one waits and begins again after the unlock")
    func lockedInTheMiddle() async throws {
        for (protectionClass, isSent) in [(ProtectionClass.completeUnlessOpen, true), (.complete, false)] {
            let bed = try DownloadBed()
            try bed.put(bytes, as: protectionClass)
            let taker = Taker { sent in if sent == 150_000 { try bed.keybag.lock() } }
            let queue = try DownloadQueue(bed.keybag, transport: taker)
            let id = try await queue.add(request(bed)).id
            try await queue.run(untilIdle: true)
            let locked = try await queue.download(id)
            #expect(locked.state == (isSent ? .finished : .queued), "\(String(describing: locked.failure))")
            #expect(isSent || locked.activity == .waitingForUnlock)
            #expect(taker.bodies == (isSent ? [bytes] : []))
            guard !isSent else { continue }
            try bed.unlock()
            let again = Taker()
            try await DownloadQueue(bed.keybag, transport: again).run(untilIdle: true)
            #expect(try await queue.download(id).state == .finished)
            #expect(again.bodies == [bytes])
        }
    }

    @Test(
        "An unless-open file stays open between tries: a connection that breaks while locked keeps nothing from going on"
    )
    func openBetweenTries() async throws {
        struct Broken: Error {}
        let bed = try DownloadBed()
        try bed.put(bytes, as: .completeUnlessOpen)
        let hasBroken = Mutex(false)
        let taker = Taker { sent in
            guard sent == 150_000, hasBroken.withLock({ !$0 }) else { return }
            hasBroken.withLock { $0 = true }
            try bed.keybag.lock()
            throw Broken()
        }
        var request = request(bed)
        request.retry.firstDelay = .milliseconds(10)
        let queue = try DownloadQueue(bed.keybag, transport: taker)
        let id = try await queue.add(request).id
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(id).state == .finished)
        #expect(taker.bodies == [bytes])
    }

    @Test("The progress can be seen by the queue that added it, and by others")
    func progress() async throws {
        let (bed, server) = (try DownloadBed(), try FaultServer())
        try bed.put(bytes, as: .complete)
        let held = Answer(length: 1).with(\.cutHeadAfter, 5).with(\.end, .stall)
        try server.answer("/file", held, Answer(status: 200))
        let queue = try DownloadQueue(bed.keybag)
        let id = try await queue.add(bed.upload(server)).id
        let run = Task { try await queue.run(untilIdle: true) }
        #expect(try await server.waitUntilHeld())
        let here = try await queue.download(id)
        #expect(here.received == UInt64(bytes.count) && here.length == UInt64(bytes.count))
        #expect(here.activity == .transferring)
        let others = try DownloadQueue(bed.keybag)
        while try await others.download(id).received < UInt64(bytes.count) {
            try await Task.sleep(for: .milliseconds(50))
        }
        try server.release()
        try await run.value
        #expect(try await queue.download(id).state == .finished)
    }

    @Test("Paused before the answer: not sent on; resumed, it is sent whole. Cancelled: the file stays")
    func pausedAndCancelled() async throws {
        let bed = try DownloadBed()
        try bed.put(bytes, as: .complete)
        let taker = Taker()
        let queue = try DownloadQueue(bed.keybag, transport: taker)
        let id = try await queue.add(request(bed)).id
        try await queue.pause(id)
        try await queue.run(untilIdle: true)
        #expect(taker.bodies.isEmpty)
        try await queue.resume(id)
        try await queue.run(untilIdle: true)
        #expect(taker.bodies == [bytes])
        let second = try await queue.add(request(bed)).id
        try await queue.cancel(second)
        try await queue.remove(second)
        #expect(try bed.contents() == bytes)
    }

    @Test(
        "Locked from the beginning: waits for the unlock, which the one who runs the list notices",
        arguments: [ProtectionClass.complete, .completeUnlessOpen])
    func lockedFromTheBeginning(protectionClass: ProtectionClass) async throws {
        let bed = try DownloadBed()
        try bed.put(bytes, as: protectionClass)
        let taker = Taker()
        let queue = try DownloadQueue(bed.keybag, transport: taker)
        let upload = try await queue.add(request(bed))
        try bed.keybag.lock()
        let run = Task { try await queue.run() }
        while try await queue.download(upload.id).activity != .waitingForUnlock {
            try await Task.sleep(for: .milliseconds(20))
        }
        try bed.unlock()
        #expect(try await upload.value.length == UInt64(bytes.count))
        run.cancel()
        try await run.value
        #expect(taker.bodies == [bytes])
    }

    @Test("A file that opens while locked is sent while locked")
    func firstUnlockClass() async throws {
        let bed = try DownloadBed()
        try bed.put(bytes, as: .completeUntilFirstUserAuthentication)
        try bed.keybag.lock()
        let taker = Taker()
        let queue = try DownloadQueue(bed.keybag, transport: taker)
        let id = try await queue.add(request(bed)).id
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(id).state == .finished)
    }

    @Test("Over TLS, by libcurl: an unless-open file that is locked while it is sent")
    func lockedOverTLS() async throws {
        let (bed, server) = (try DownloadBed(), try FaultServer())
        let bytes = Answer.pattern(0..<8 << 20)
        try bed.put(bytes, as: .completeUnlessOpen)
        try server.answer("/file", Answer(status: 200))
        let queue = try DownloadQueue(bed.keybag)
        let id = try await queue.add(bed.upload(server)).id
        let run = Task { try await queue.run(untilIdle: true) }
        while queue.progress(id) == nil { try await Task.sleep(for: .milliseconds(1)) }
        try bed.keybag.lock()
        try await run.value
        let upload = try await queue.download(id)
        #expect(upload.state == .finished, "\(String(describing: upload.failure))")
        #expect(throws: DataProtectionError.self) { try bed.contents() }
        #expect(try server.requests().map(\.bodySHA256) == [digest(bytes)])
    }

    // MARK: kills

    @Test("Killed before the answer: sent again, whole, by the next one. Killed behind the answer's head: never again")
    func killed() async throws {
        for isAcknowledged in [false, true] {
            let (bed, server) = (try DownloadBed(), try FaultServer())
            try bed.put(bytes, as: .complete)
            let held = Answer(length: 100).with(isAcknowledged ? \.holdAfter : \.cutHeadAfter, isAcknowledged ? 1 : 5)
            try server.answer("/file", held.with(\.end, .stall), Answer(status: 200))
            let queue = try DownloadQueue(bed.keybag)
            let id = try await queue.add(bed.upload(server)).id
            let worker = try DownloadWorker.start(bed)
            #expect(try await server.waitUntilHeld())
            if isAcknowledged {
                while try await queue.download(id).state != .finished { try await Task.sleep(for: .milliseconds(20)) }
            }
            kill(worker.processIdentifier, SIGKILL)
            worker.waitUntilExit()
            try server.release()
            let next = try DownloadWorker.start(bed, "idle")
            next.waitUntilExit()
            #expect(try await queue.download(id).state == .finished)
            let seen = try server.requests()
            #expect(seen.count == (isAcknowledged ? 1 : 2))
            #expect(try seen.last?.bodySHA256 == digest(bytes))
        }
    }
}
