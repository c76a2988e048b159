import Foundation
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// Several downloads that are added by one change of the list.
@Suite struct AdditionTests {
    /// Why each was not added; nil for those that were.
    private func words(_ results: [Result<Download, DownloadError>]) -> [String?] {
        results.map { result in
            guard case .failure(let error) = result else { return nil }
            return String("\(error)".prefix { $0 != "(" })
        }
    }

    /// None of the bad ones keeps a good one out, and the good ones keep their order.
    @Test func oneBadAmongMany() async throws {
        let bed = try DownloadBed()
        try Data("mine".utf8).write(to: URL(fileURLWithPath: bed.path("there").string))
        try FileManager.default.createDirectory(atPath: bed.path("d").string, withIntermediateDirectories: false)
        var plain = bed.request("plain")
        plain.url = URL(string: "http://server.test/plain")!
        var unsigned = bed.request("unsigned")
        unsigned.checks = [.hmacSHA256(keyID: "none", tag: [UInt8](repeating: 0, count: 32))]
        let queue = try bed.queue()
        let results = try await queue.add([
            bed.request("a"), plain, bed.request("there"), bed.request("b"), bed.request("missing/file"), unsigned,
            bed.request("d"), bed.request("c"),
        ])
        #expect(
            words(results) == [
                nil, "invalidRequest", "targetExists", nil, "noDirectory", "unknownIntegrityKey", "protection", nil,
            ])
        #expect(try await queue.downloads().map(\.request?.target) == ["a", "b", "c"].map(bed.path))
        #expect(try await queue.downloads().map(\.id) == results.compactMap { try? $0.get().id })
        #expect(try await queue.add([]).isEmpty)
    }

    @Test func allBad() async throws {
        let bed = try DownloadBed()
        let queue = try bed.queue()
        #expect(
            try await words(queue.add([bed.request("x/a"), bed.request("x/b")])) == ["noDirectory", "noDirectory"])
        #expect(try await queue.downloads().isEmpty)
    }

    /// All or none of those that could be added, where the list itself fails.
    @Test func theListFails() async throws {
        let bed = try DownloadBed()
        let queue = try bed.queue()
        try queue.store.write {
            try $0.execute(
                sql: """
                    CREATE TRIGGER full BEFORE INSERT ON downloads WHEN (SELECT count(*) FROM downloads) = 2
                    BEGIN SELECT RAISE(ABORT, 'full'); END
                    """)
        }
        await #expect(throws: DownloadError.self) {
            _ = try await queue.add(["a", "b", "c", "d"].map { bed.request($0) })
        }
        #expect(try await queue.downloads().isEmpty)
    }

    /// The second one would find the name taken when everything has come.
    @Test func theSameTargetTwice() async throws {
        let bed = try DownloadBed()
        let queue = try bed.queue()
        var other = bed.request("a")
        other.url = URL(string: "https://server.test/other")!
        let results = try await queue.add([bed.request("a"), other, bed.request("b")])
        #expect(words(results) == [nil, "targetInList", nil])
        let first = try results[0].get().id
        guard case .failure(.targetInList(bed.path("a"), first)) = results[1] else {
            Issue.record("\(results[1])")
            return
        }
        #expect(try await queue.downloads().map(\.request?.target) == ["a", "b"].map(bed.path))
    }

    @Test func aTargetThatIsInTheList() async throws {
        let bed = try DownloadBed()
        bed.server["a"] = .init(bytes: noise(1000))
        let queue = try bed.queue()
        let first = try await queue.add(bed.request("a")).id
        func isRefused(_ request: DownloadRequest) async throws -> Bool {
            let error = await #expect(throws: DownloadError.self) { try await bed.queue().add(request) }
            guard case .targetInList(bed.path("a"), first)? = error else { return false }
            return true
        }
        #expect(try await isRefused(bed.request("a")))
        try await queue.pause(first)
        #expect(try await isRefused(bed.request("a")))
        // A file may be sent while another one is to replace it, and twice.
        try bed.put([1], "a", as: .none)
        for _ in 0..<2 {
            let upload = DownloadRequest(uploading: bed.path("a"), to: URL(string: "https://server.test/u")!)
            try await queue.cancel(queue.add(upload).id)
        }
        try FileManager.default.removeItem(atPath: bed.path("a").string)
        // Who replaces has the last word.
        var replacing = bed.request("a")
        replacing.replacesExisting = true
        try await queue.cancel(queue.add(replacing).id)
        // One that is over keeps no name.
        try await queue.cancel(first)
        #expect(try await bed.result(bed.request("a")).state == .finished)
    }
}
