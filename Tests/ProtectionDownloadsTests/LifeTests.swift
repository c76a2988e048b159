import Foundation
import ProtectionKeys
import Synchronization
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// A download from its addition to its name, in every lock state.
@Suite struct LifeTests {
    private let bytes = noise(700_000)

    private func bed(_ state: ProtectionState = .unlocked) throws -> DownloadBed {
        let bed = try DownloadBed(state)
        bed.server["file"] = .init(bytes: bytes)
        return bed
    }

    @Test(arguments: memories) func unlocked(_ memory: Int) async throws {
        let bed = try bed()
        let download = try await bed.result(memory: memory)
        #expect(download.state == .finished)
        #expect(download.received == UInt64(bytes.count))
        #expect(download.file?.path == bed.path("file"))
        #expect(try bed.protectionClass() == .complete)
        #expect(try bed.contents() == bytes)
        #expect(try bed.names() == ["file"])
        #expect(bed.server.requests.count == 1)
        #expect(bed.keybag.queuedWorkCount == 0)
    }

    /// Begun unlocked, locked half way: it goes on, gets its name, and is raised by the next unlock's work.
    @Test(arguments: memories) func lockedHalfWay(_ memory: Int) async throws {
        let bed = try bed()
        bed.server.beforeEachPiece { sent in if sent == 300_000 { try bed.keybag.lock() } }
        var request = bed.request()
        request.checks = [.digest(.sha256, try Digest.sha256(bytes))]
        let download = try await bed.result(request, memory: memory)
        #expect(download.state == .finished)
        #expect(bed.server.requests.count == 1)
        #expect(try bed.names() == ["file"])
        #expect(try bed.protectionClass() == .completeUnlessOpen)
        #expect(throws: DataProtectionError.self) { try bed.contents() }
        try bed.unlock()
        try bed.keybag.performQueuedWork()
        #expect(try bed.protectionClass() == .complete)
        #expect(try bed.contents() == bytes)
    }

    /// Locked from the beginning, in one piece: nobody needs a key.
    @Test(arguments: memories) func lockedFromTheBeginning(_ memory: Int) async throws {
        let bed = try bed(.locked)
        let download = try await bed.result(memory: memory)
        #expect(download.state == .finished)
        #expect(try bed.protectionClass() == .completeUnlessOpen)
        try bed.unlock()
        try bed.keybag.performQueuedWork()
        #expect(try bed.contents() == bytes)
        #expect(try bed.protectionClass() == .complete)
    }

    /// A runner that ended while locked cannot open its partial again: a second part begins, and is joined after the unlock.
    @Test func aSecondPartWhileLocked() async throws {
        let bed = try bed()
        var request = bed.request()
        request.checks = [.digest(.sha256, try Digest.sha256(bytes)), .length(UInt64(bytes.count))]
        let queue = try bed.queue()
        let download = try await queue.add(request)
        try await bed.run(queue, untilSent: 250_000)
        try bed.keybag.lock()
        try await bed.run(bed.queue(), untilSent: 100_000)
        bed.server.beforeEachPiece(nil)
        try await bed.runUntilIdle()
        let waiting = try await queue.download(download.id)
        #expect(waiting.state == .queued)
        #expect(waiting.activity == .waitingForUnlock)
        #expect(waiting.received == UInt64(bytes.count))
        #expect(try bed.names().count == 3)
        #expect(bed.server.requests.count == 3)
        // A runner that sees the unlock finishes it.
        let running = Task { try await queue.run() }
        try bed.unlock()
        #expect(try await download.value.length == UInt64(bytes.count))
        running.cancel()
        try await running.value
        #expect(try bed.contents() == bytes)
        #expect(try bed.names() == ["file"])
        #expect(bed.server.requests.count == 3)
    }

    @Test func unlockedItGoesOnInTheSameFile() async throws {
        let bed = try bed()
        let queue = try bed.queue()
        let download = try await queue.add(bed.request())
        try await bed.run(queue, untilSent: 250_000)
        let there = try await queue.download(download.id)
        #expect(there.received == 250_000)
        #expect(there.state == .queued)
        bed.server.beforeEachPiece(nil)
        try await bed.runUntilIdle()
        #expect(try bed.contents() == bytes)
        #expect(bed.server.requests.last?.headers.first { $0.name == "Range" }?.value == "bytes=250000-")
        #expect(try bed.names() == ["file"])
    }

    // MARK: suspend

    @Test func suspendedWhileLocked() async throws {
        let later = Clock.Lead()
        try await Clock.$lead.withValue(later) {
            let bed = try bed()
            var request = bed.request()
            request.whileLocked = .suspend
            let queue = try bed.queue()
            let download = try await queue.add(request)
            bed.server.beforeEachPiece { sent in
                // The next piece is flushed with what came before: a lock without a grace leaves no time for the rest.
                if sent == 200_000 { later.move(by: 1.1) }
                guard sent == 300_000 else { return }
                let partial = try #require(try bed.names().first { $0.hasPrefix(".file.protectfs-download-") })
                #expect(try bed.protectionClass(partial) == .complete)
                try bed.keybag.lock()
                bed.server.beforeEachPiece(nil)
            }
            let running = Task { try await queue.run() }
            for try await event in download.events where event == .state(.queued, .waitingForUnlock) { break }
            #expect(try bed.names().count == 1)
            try bed.unlock()
            _ = try await download.value
            running.cancel()
            try await running.value
            #expect(try bed.contents() == bytes)
            #expect(try bed.protectionClass() == .complete)
            let ranges = bed.server.requests.map { $0.headers.first { $0.name == "Range" }?.value }
            #expect(ranges.count == 2 && ranges[1] != nil)
        }
    }

    /// A lock is announced: what is to stop has stopped, flushed to the byte, before the keys go; when it is called off it goes on.
    @Test func suspendedBeforeTheLock() async throws {
        let bed = try bed()
        var request = bed.request()
        request.whileLocked = .suspend
        let queue = try bed.queue()
        let download = try await queue.add(request)
        bed.server.beforeEachPiece { sent in
            guard sent == 300_000 else { return }
            bed.server.beforeEachPiece(nil)
            _ = try bed.keybag.armLock(seconds: 3600)
            try await Task.sleep(for: .seconds(20))
        }
        let running = Task { try await queue.run() }
        for try await event in download.events where event == .state(.queued, .waitingForUnlock) { break }
        #expect(try bed.keybag.state() == .unlocked)
        #expect(try await bed.queue().download(download.id).received == 300_000)
        #expect(try bed.keybag.cancelArmedLock())
        _ = try await download.value
        running.cancel()
        try await running.value
        #expect(try bed.contents() == bytes)
        let ranges = bed.server.requests.map { $0.headers.first { $0.name == "Range" }?.value }
        #expect(ranges == [nil, "bytes=300000-"])
    }

    // MARK: before the first unlock

    @Test func beforeTheFirstUnlock() async throws {
        let bed = try bed()
        let queue = try bed.queue()
        let download = try await queue.add(bed.request())
        try bed.forgetEverything()
        let restarted = try bed.queue()
        let running = Task { try await restarted.run() }
        for try await event in download.events where event == .state(.queued, .waitingForFirstUnlock) { break }
        let blind = try await restarted.download(download.id)
        #expect(blind.request == nil)
        #expect(bed.server.requests.isEmpty)
        await #expect(throws: DownloadError.self) { try await bed.queue().add(bed.request("other")) }
        try bed.unlock()
        _ = try await download.value
        running.cancel()
        try await running.value
        #expect(try bed.contents() == bytes)
    }

    // MARK: weaker classes

    @Test(arguments: [ProtectionClass.completeUntilFirstUserAuthentication, .none, .completeUnlessOpen])
    func otherClasses(_ protectionClass: ProtectionClass) async throws {
        let bed = try bed(.locked)
        var request = bed.request()
        request.protectionClass = protectionClass
        #expect(try await bed.result(request).state == .finished)
        #expect(try bed.protectionClass() == protectionClass)
        try bed.unlock()
        #expect(try bed.contents() == bytes)
    }

    // MARK: what others ask for

    @Test func pausedResumedAndCancelledByAnother() async throws {
        let hasStopped = Atomic(false)
        let bed = try bed()
        let queue = try bed.queue()
        let download = try await queue.add(bed.request())
        let other = try bed.queue()
        bed.server.beforeEachPiece { sent in
            guard sent == 200_000 else { return }
            bed.server.beforeEachPiece(nil)
            try await other.pause(download.id)
            do { try await Task.sleep(for: .seconds(20)) } catch {
                hasStopped.store(true, ordering: .relaxed)
                throw error
            }
        }
        let running = Task { try await queue.run() }
        for try await event in download.events where event == .state(.paused, .waiting) { break }
        // Who resumes it before the runner has seen the pause lets it go on as if there had been none.
        while !hasStopped.load(ordering: .relaxed) { try await Task.sleep(for: .milliseconds(1)) }
        try await other.resume(download.id)
        _ = try await download.value
        #expect(try bed.contents() == bytes)
        #expect(bed.server.requests.count == 2)
        await #expect(throws: DownloadError.self) { try await other.pause(download.id) }
        await #expect(throws: DownloadError.self) { try await other.cancel(download.id) }

        bed.server["second"] = .init(bytes: bytes)
        bed.server.beforeEachPiece { sent in
            guard sent == 200_000 else { return }
            bed.server.beforeEachPiece(nil)
            let second = try await other.downloads().last!
            try await other.cancel(second.id)
            try await Task.sleep(for: .seconds(20))
        }
        let second = try await other.add(bed.request("second"))
        await #expect(throws: DownloadError.self) { try await second.value }
        running.cancel()
        try await running.value
        #expect(try bed.names() == ["file"])
        try await other.remove(second.id)
        #expect(try await other.downloads().map(\.id) == [download.id])
    }

    @Test func cancelledWhereNobodyRuns() async throws {
        let bed = try bed()
        let queue = try bed.queue()
        let download = try await queue.add(bed.request())
        try await bed.run(queue, untilSent: 250_000)
        #expect(try bed.names().count == 1)
        try await queue.cancel(download.id)
        #expect(try bed.names() == [])
    }

    @Test func onlyOneRuns() async throws {
        let bed = try bed()
        let queue = try bed.queue()
        #expect(!queue.isRunning)
        let running = Task { try await queue.run() }
        while !queue.isRunning { try await Task.sleep(for: .milliseconds(5)) }
        let error = await #expect(throws: DownloadError.self) { try await bed.queue().run() }
        guard case .alreadyRunning? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        running.cancel()
        try await running.value
        #expect(!queue.isRunning)
    }

    /// It is noticed at once what another process adds; and who is not the runner hears how it goes.
    @Test func twoProcesses() async throws {
        let bed = try bed()
        let queue = try bed.queue()
        let running = Task { try await queue.run() }
        let other = try bed.queue()
        let download = try await other.add(bed.request())
        var events: [DownloadEvent] = []
        for try await event in download.events { events.append(event) }
        #expect(events.last == .finished(DownloadedFile(path: bed.path("file"), length: 700_000, isTamperProof: false)))
        running.cancel()
        try await running.value
    }
}
