import Foundation
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// Many downloads that are followed at once: each one's end is told, once, whoever runs the list and whenever it came.
@Suite(.timeLimit(.minutes(5))) struct FollowingTests {
    private func requests(_ bed: DownloadBed, _ count: Int) -> [DownloadRequest] {
        bed.server["file"] = .init(bytes: noise(1_000))
        return (0..<count).map { DownloadRequest(bed.request().url, to: bed.path("file \($0)")) }
    }

    private func ends(_ queue: DownloadQueue, of ids: [DownloadID]) async throws -> [DownloadID: [DownloadEvent]] {
        var ends: [DownloadID: [DownloadEvent]] = [:]
        for try await (id, event) in queue.events(of: ids) {
            switch event {
            case .progress, .state: break
            case .finished, .failed, .cancelled: ends[id, default: []].append(event)
            }
        }
        return ends
    }

    @Test func nothingToFollow() async throws {
        #expect(try await ends(DownloadBed().queue(), of: []).isEmpty)
    }

    @Test func overOrUnknownAlready() async throws {
        let bed = try DownloadBed()
        bed.server["file"] = .init(bytes: noise(1_000))
        let finished = try await bed.result().id
        let queue = try bed.queue()
        let cancelled = try await queue.add(DownloadRequest(bed.request().url, to: bed.path("other"))).id
        try await queue.cancel(cancelled)
        let unknown = try DownloadID.random()
        let ends = try await ends(queue, of: [finished, unknown, cancelled, finished])
        #expect(ends[finished]?.count == 1 && ends[unknown] == [.cancelled] && ends[cancelled] == [.cancelled])
    }

    /// By the list of another process, as it were, and by two who follow in this one.
    @Test func manyByTwo() async throws {
        let bed = try DownloadBed()
        let queue = try bed.queue(memory: WriteBuffer.capacity)
        let ids = try await queue.add(requests(bed, 300)).map { try $0.get().id }
        let other = try bed.queue()
        async let here = ends(queue, of: ids)
        async let there = ends(other, of: ids.reversed())
        try await queue.run(untilIdle: true)
        for ends in try await [here, there] {
            #expect(Set(ends.keys) == Set(ids))
            #expect(
                ends.values.allSatisfy { events in
                    if events.count == 1, case .finished = events[0] { true } else { false }
                })
        }
    }

    @Test func takenAwayMeanwhile() async throws {
        let bed = try DownloadBed()
        let queue = try bed.queue()
        let ids = try await queue.add(requests(bed, 3)).map { try $0.get().id }
        async let ends = ends(queue, of: ids)
        let other = try bed.queue()
        for id in ids {
            try await other.cancel(id)
            try await other.remove(id)
        }
        #expect(try await ends == Dictionary(uniqueKeysWithValues: ids.map { ($0, [.cancelled]) }))
    }

    /// Its name cannot be read: that is said, and not that nobody waits any more.
    @Test func finishedBeforeTheFirstUnlock() async throws {
        let bed = try DownloadBed()
        bed.server["file"] = .init(bytes: noise(1_000))
        let id = try await bed.result().id
        try bed.forgetEverything()
        let download = try await bed.queue().download(id)
        do {
            _ = try await download.value
            Issue.record("there is no name to be told")
        } catch DownloadError.beforeFirstUnlock {}
        try bed.unlock()
        #expect(try await bed.queue().download(id).value.path == bed.path("file"))
    }

    /// Whose tries are not written down one by one.
    @Test func triesAreCounted() async throws {
        let bed = try DownloadBed()
        bed.server.answer(.status(500, [:]), .status(500, [:]), .status(500, [:]), .status(500, [:]))
        let download = try await bed.result()
        #expect(download.failure?.kind == .gaveUp && download.attempts == 4)
        #expect(download.failure?.message.contains("after 4 tries") == true)
    }
}
