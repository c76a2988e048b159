import Foundation
import GRDB
import Glibc
import ProtectionKeys
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// What is wrong with one download, its directory or the clock is nobody else's trouble.
@Suite struct TroubleTests {
    private let bytes = noise(300_000)

    private func bed() throws -> DownloadBed {
        let bed = try DownloadBed()
        for name in ["file", "d/file", "other"] { bed.server[name] = .init(bytes: bytes) }
        try FileManager.default.createDirectory(atPath: bed.path("d").string, withIntermediateDirectories: false)
        return bed
    }

    /// A download to `d` of which half has come, and that has failed.
    private func half(_ bed: DownloadBed) async throws -> DownloadID {
        bed.server.answer(.reset(after: 150_000), .status(404, [:]))
        let download = try await bed.result(bed.request("d/file"))
        #expect(download.state == .failed)
        return download.id
    }

    /// What `d` has become.
    enum Instead: CaseIterable { case file, loop }

    private func replaceDirectory(_ bed: DownloadBed, by what: Instead) throws {
        try FileManager.default.moveItem(atPath: bed.path("d").string, toPath: bed.path("e").string)
        switch what {
        case .file: try Data().write(to: URL(fileURLWithPath: bed.path("d").string))
        case .loop: try FileManager.default.createSymbolicLink(atPath: bed.path("d").string, withDestinationPath: "d")
        }
    }

    // MARK: words

    /// A failure's message is for people: none of it is how Swift writes an error down.
    @Test func whatFailsIsSaidInWords() throws {
        let failed = KeyError.libraryFailed(operation: "RAND_bytes", code: 0)
        let errors: [(any Error, String)] = [
            (DownloadError.store("/list", code: 13, reason: "full"), "the list /list cannot be used: full (13)"),
            (DownloadError.cryptography(failed), "libcrypto failed on RAND_bytes"),
            (DataProtectionError.cryptography(failed), "libcrypto failed on RAND_bytes"),
            (DataProtectionError.system("/f", operation: "pwrite", .noSpace), "pwrite /f: No space left on device"),
        ]
        for (error, words) in errors {
            guard case .failedForGood(let failure) = EndOfTry(error) else {
                Issue.record("\(error) is for good")
                continue
            }
            #expect(failure.message == words && failure.kind == .disk)
        }
    }

    // MARK: directories

    @Test(arguments: Instead.allCases) func cancelledWhereItsDirectoryCannotBeRead(_ what: Instead) async throws {
        let bed = try bed()
        let (id, queue) = (try await half(bed), try bed.queue())
        try replaceDirectory(bed, by: what)
        if what == .file {
            try await queue.cancel(id)
        } else {
            await #expect(throws: DownloadError.self, "something is left there") { try await queue.cancel(id) }
        }
        #expect(try await queue.download(id).state == .cancelled)
        #expect(try await bed.result(bed.request("other")).state == .finished)
        try FileManager.default.removeItem(atPath: bed.path("d").string)
        try FileManager.default.moveItem(atPath: bed.path("e").string, toPath: bed.path("d").string)
        if what == .loop {
            try await bed.runUntilIdle()
            #expect(try FileManager.default.contentsOfDirectory(atPath: bed.path("d").string) == [])
        }
        try await queue.remove(id)
    }

    @Test(arguments: Instead.allCases) func resumedWhereItsDirectoryCannotBeRead(_ what: Instead) async throws {
        let bed = try bed()
        let (id, queue) = (try await half(bed), try bed.queue())
        try replaceDirectory(bed, by: what)
        try await queue.resume(id)
        let other = try await bed.result(bed.request("other"))
        #expect(other.state == .finished)
        #expect(try await queue.download(id).failure?.kind == .disk)
    }

    @Test func noNameThatNoFileCanHave() async throws {
        let bed = try bed()
        let error = await #expect(throws: DownloadError.self) {
            try await bed.queue().add(bed.request(String(repeating: "x", count: 256)))
        }
        guard case .protection(.system(_, _, .fileNameTooLong))? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        let longest = String(repeating: "x", count: 255)
        bed.server[longest] = .init(bytes: bytes)
        #expect(try await bed.result(bed.request(longest)).state == .finished)
        #expect(try bed.contents(longest) == bytes)
    }

    @Test(arguments: [false, true]) func noDirectoryIsReplaced(_ replaces: Bool) async throws {
        let bed = try bed()
        var request = bed.request("d")
        request.replacesExisting = replaces
        let error = await #expect(throws: DownloadError.self) { try await bed.queue().add(request) }
        guard case .protection(.notRegularFile(bed.path("d")))? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    // MARK: keys

    /// The class keys are replaced while it comes, and the retired ones forgotten once nothing seems to need them.
    @Test(arguments: [false, true]) func rotatedHalfWay(_ forgets: Bool) async throws {
        let bed = try bed()
        bed.server.beforeEachPiece { sent in
            guard sent == 100_000 else { return }
            let passcode = DownloadBed.secret(DownloadBed.passcode)
            try bed.keybag.open(passcode: passcode).rotate(passcode: passcode, iterations: 1_000)
            for path in try DownloadsDirectory.protectedFiles(of: bed.keybag)
                + bed.names().filter({ $0.hasPrefix(".") }).map(bed.path)
            {
                _ = try? bed.keybag.rewrap(fileAt: path)
            }
            if forgets { try bed.keybag.open(passcode: passcode).forgetRetiredKeys(before: .max) }
        }
        let download = try await bed.result()
        #expect(download.state == .finished, "\(String(describing: download.failure))")
        try bed.keybag.performQueuedWork()
        #expect(try bed.contents() == bytes)
        #expect(try bed.protectionClass() == .complete)
        #expect(try !bed.keybag.needsRewrap(fileAt: bed.path("file")))
    }

    // MARK: the clock

    /// It was set back behind the time when the download was added, or when it was tried: what is noted of the next try means nothing.
    @Test(arguments: [true, false]) func theClockIsSetBack(_ isAddedLater: Bool) async throws {
        let bed = try bed()
        let queue = try bed.queue()
        let download = try await queue.add(bed.request())
        let future = DownloadRunner.now + 400 * 86_400_000
        try queue.store.write {
            try $0.execute(
                sql: "UPDATE downloads SET began = ?, notBefore = ?",
                arguments: [isAddedLater ? future : DownloadRunner.now, future + 1000])
        }
        let running = Task { try await queue.run() }
        _ = try await download.value
        running.cancel()
        try await running.value
    }

    /// As long as a server may ask for, and no longer, is believed.
    @Test func theLongestWait() async throws {
        let bed = try bed()
        let queue = try bed.queue()
        var request = bed.request()
        request.retry.maximumTime = .seconds(30 * 86_400)
        bed.server.answer(.status(503, ["Retry-After": "\(29 * 86_400)"]))
        let id = try await queue.add(request).id
        let running = Task { try await queue.run() }
        while try await queue.download(id).activity != .waitingToRetry { try await Task.sleep(for: .milliseconds(20)) }
        // It looks again.
        try await queue.cancel(queue.add(bed.request("other")).id)
        while try await queue.downloads().count < 2 { try await Task.sleep(for: .milliseconds(20)) }
        running.cancel()
        try await running.value
        #expect(try await queue.download(id).attempts == 1)
        #expect(try await queue.download(id).nextTry != nil)
    }

    // MARK: the list

    @Test func whenItEnded() async throws {
        let bed = try bed()
        let queue = try bed.queue()
        _ = try await half(bed)
        var request = bed.request()
        request.checks = [.length(1)]
        _ = try await bed.result(request)
        #expect(try await bed.result(bed.request("other")).state == .finished)
        let count = "SELECT count(*) FROM downloads WHERE ended > 0"
        #expect(try queue.store.read { try Int.fetchOne($0, sql: count) } == 3)
    }

    /// A server that is slow, or of which many wait, keeps no download of another one waiting.
    @Test func manyOfOneServer() async throws {
        let bed = try bed()
        let queue = try bed.queue(total: 4, perHost: 2)
        let requests = (0..<100).map { number in
            bed.server["n\(number)"] = .init(bytes: bytes)
            return bed.request("n\(number)")
        }
        bed.server["empty"] = .init(bytes: [])
        var other = bed.request("empty")
        other.url = URL(string: "https://other.test/empty")!
        // Never goes on: what has no bytes does not come here.
        bed.server.beforeEachPiece { _ in try await Task.sleep(for: .seconds(3600)) }
        let id = try await queue.add(requests + [other]).last!.get().id
        let running = Task { try await queue.run() }
        var looks = 0
        while try await queue.download(id).state != .finished, looks < 500 {
            try await Task.sleep(for: .milliseconds(20))
            looks += 1
        }
        #expect(try await queue.download(id).state == .finished)
        running.cancel()
        try await running.value
    }

    /// A server that breaks off each: none is asked for again before its time, and not all stay open until then.
    @Test func manyHalfDownloads() async throws {
        let bed = try bed()
        let queue = try bed.queue()
        for number in 0..<100 {
            bed.server["n\(number)"] = .init(bytes: bytes)
            var request = bed.request("n\(number)")
            request.retry.firstDelay = .seconds(600)
            _ = try await queue.add(request)
            bed.server.answer(.reset(after: 50_000))
        }
        let running = Task { try await queue.run() }
        while try await queue.downloads().contains(where: { !$0.state.isOver && $0.activity != .waitingToRetry }) {
            try await Task.sleep(for: .milliseconds(200))
        }
        let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").filter {
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/" + $0))?
                .hasPrefix(bed.directory.string) == true
        }
        #expect(open.count <= 32)
        #expect(try await queue.downloads().allSatisfy { $0.attempts == 1 })
        running.cancel()
        try await running.value
    }
}
