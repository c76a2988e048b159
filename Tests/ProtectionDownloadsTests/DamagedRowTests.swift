import Foundation
import GRDB
import ProtectionKeys
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// Somebody has altered a row: it is shown as damaged, does nothing any more, and keeps nobody from anything.
@Suite struct DamagedRowTests {
    private func list() async throws -> (bed: DownloadBed, queue: DownloadQueue, altered: DownloadID, other: DownloadID)
    {
        let bed = try DownloadBed()
        for name in ["a", "b"] { bed.server[name] = .init(bytes: noise(1000)) }
        bed.server["a"] = nil
        let queue = try bed.queue()
        let altered = try await queue.add(bed.request("a")).id
        let other = try await queue.add(bed.request("b")).id
        // With a resource and a failure, so that there is something to alter.
        try queue.store.note(
            PartialRecord(resource: ResourceIdentity(entityTag: "\"1\"", length: 1000), parts: []), of: altered)
        try queue.store.retry(altered, at: 0, after: DownloadFailure(.connection, "it broke"))
        try queue.store.beginPublishing(
            altered,
            PublishedFile(fileID: Array(repeating: 1, count: 16), temporary: [1], length: 1, isTamperProof: true))
        try queue.store.write { try $0.execute(sql: "UPDATE downloads SET state = 1 WHERE state = 3") }
        return (bed, queue, altered, other)
    }

    @Test("A publishing or finished row without a result is damaged", arguments: [3, 4])
    func anEndWithoutResult(_ state: Int) async throws {
        let (bed, queue, altered, other) = try await list()
        try queue.store.write {
            try $0.execute(
                sql: "UPDATE downloads SET state = ?, result = NULL WHERE id = ?",
                arguments: [state, Data(altered.bytes)])
        }
        let shown = try await queue.download(altered)
        #expect(shown.state == .failed && shown.failure?.kind == .damaged)
        try await bed.runUntilIdle()
        #expect(try await queue.download(other).state == .finished)
        try await queue.cancel(altered)
        try await queue.remove(altered)
        #expect(try await queue.downloads().map(\.id) == [other])
    }

    private static let columns = [
        "state", "activity", "priority", "position", "added", "began", "notBefore", "failures", "attempts", "received",
        "furthest", "length", "request", "resource", "failure", "result",
    ]

    @Test(arguments: columns) func anyColumn(_ column: String) async throws {
        let isSealed = ["request", "resource", "failure", "result"].contains(column)
        try await alter(column, to: isSealed ? Data([1, 2, 3]) : "no number")
    }

    /// Numbers that something is added to, or that something is multiplied by.
    @Test(
        arguments: columns[..<11].filter { $0 != "priority" }, [Int64.max, .min, .max / 100 + 1])
    func anyNumber(_ column: String, _ number: Int64) async throws { try await alter(column, to: number) }

    private func alter(_ column: String, to value: any DatabaseValueConvertible) async throws {
        let (bed, queue, altered, other) = try await list()
        try queue.store.write {
            try $0.execute(
                sql: "UPDATE downloads SET \(column) = ? WHERE id = ?", arguments: [value, Data(altered.bytes)])
        }
        let shown = try await queue.download(altered)
        #expect(shown.state == .failed && shown.failure?.kind == .damaged)
        #expect(try await queue.downloads().map(\.id).contains(other))
        try await bed.runUntilIdle()
        #expect(try await queue.download(other).state == .finished)
        #expect(try bed.names() == ["b"])
        await #expect(throws: DownloadError.self) { try await shown.value }
        let third = try await queue.add(bed.request("c")).id
        try await queue.cancel(altered)
        try await queue.remove(altered)
        #expect(try await queue.downloads().map(\.id) == [other, third])
    }

    /// A row that has another id: its values do not open there.
    @Test(arguments: [Data(repeating: 9, count: 16), Data([9, 9, 9])]) func theID(_ id: Data) async throws {
        let (bed, queue, altered, other) = try await list()
        try queue.store.write {
            try $0.execute(sql: "UPDATE downloads SET id = ? WHERE id = ?", arguments: [id, Data(altered.bytes)])
        }
        let shown = try #require(try await queue.downloads().first { $0.id != other })
        #expect(shown.failure?.kind == .damaged)
        try await bed.runUntilIdle()
        #expect(try await queue.download(other).state == .finished)
        try await queue.remove(shown.id)
        #expect(try await queue.downloads().map(\.id) == [other])
    }

    /// Numbers that nothing could be added to, from a process that has the key.
    @Test(arguments: ["number", "start", "synced"], ["\"none\"", "\(Int64.max)", "-1"])
    func thePartsOfOne(_ field: String, _ value: String) async throws {
        let (bed, queue, altered, other) = try await list()
        let fields = ["number", "start", "synced"].map { "\"\($0)\": \($0 == field ? value : "0")" }
        let json = "{\"parts\": [{\(fields.joined(separator: ", "))}]}"
        let sealed = try queue.store.seal(Array(json.utf8), .resource, row: altered.bytes)
        try queue.store.write {
            try $0.execute(
                sql: "UPDATE downloads SET resource = ? WHERE id = ?", arguments: [Data(sealed), Data(altered.bytes)])
        }
        try await bed.runUntilIdle()
        #expect(try await queue.download(other).state == .finished)
        #expect(try await queue.download(altered).failure?.kind == .damaged)
        try await queue.cancel(altered)
        try await queue.remove(altered)
    }

    @Test(arguments: ["entry", "secret", "identity", "position"]) func aCredential(_ column: String) async throws {
        let bed = try DownloadBed()
        let queue = try bed.queue()
        let space = ProtectionSpace(host: "example.org", port: 443)
        let secret = CredentialSecret(try SecretBytes(randomByteCount: 8))
        func add(_ user: String) async throws -> DownloadID {
            var request = bed.request(user)
            request.credentials = [try DownloadCredential(.password(user: user, secret), for: space)]
            return try await queue.add(request).id
        }
        let id = try await add("ann")
        try queue.store.write {
            try $0.execute(sql: "UPDATE credentials SET \(column) = \(column == "position" ? "'none'" : "1.5")")
        }
        if column == "position" {
            let other = try await add("bob")
            #expect(try queue.store.credentials(of: id).count == 1)
            #expect(try queue.store.credentials(of: other).count == 1)
        } else {
            #expect { try queue.store.credentials(of: id) } throws: { error in
                if case DownloadError.storeDamaged = error { true } else { false }
            }
        }
    }

    @Test(arguments: [
        ("isRetired", "'none'"), ("name", "'none'"), ("name", "1.5"), ("key", "'none'"), ("key", "1.5"),
    ])
    func anIntegrityKey(_ column: String, _ value: String) async throws {
        let bed = try DownloadBed()
        let queue = try bed.queue()
        defer { withExtendedLifetime(bed) {} }
        try await queue.addIntegrityKey(IntegrityKey(id: "a", SecretBytes(randomByteCount: 32)))
        try queue.store.write { try $0.execute(sql: "UPDATE integrityKeys SET \(column) = \(value)") }
        #expect { _ = try queue.store.integrityKey("a") } throws: { error in
            if case DownloadError.storeDamaged = error { true } else { false }
        }
    }

    // MARK: definitions

    /// A list in which somebody has planted a definition is not used: neither opened, nor changed by who has it open.
    @Test(arguments: [
        "CREATE TRIGGER planted AFTER INSERT ON downloads BEGIN DELETE FROM credentials; END",
        "CREATE TRIGGER planted AFTER UPDATE ON downloads BEGIN UPDATE downloads SET state = 1; END",
        "CREATE VIEW planted AS SELECT * FROM downloads", "CREATE TABLE planted (a)",
        "CREATE INDEX planted ON downloads (state)", "ALTER TABLE segments ADD COLUMN extra",
        "DROP TABLE failedCredentials",
        "ALTER TABLE credentials RENAME TO other; CREATE VIEW credentials AS SELECT * FROM other",
    ])
    func plantedDefinition(_ sql: String) async throws {
        let (bed, queue, _, other) = try await list()
        try await DatabaseQueue(path: queue.store.path.string).writeWithoutTransaction { try $0.execute(sql: sql) }
        func isRefused(_ error: any Error) -> Bool {
            if case DownloadError.storeDamaged = error { true } else { false }
        }
        await #expect(performing: { _ = try await queue.add(bed.request("c")) }, throws: isRefused)
        await #expect(performing: { try await queue.cancel(other) }, throws: isRefused)
        #expect(performing: { _ = try bed.queue() }, throws: isRefused)
    }

    // MARK: what the list says of bytes

    /// A part of a file does not get its name because the list says that it is whole.
    @Test func aPartThatIsSaidToBeWhole() async throws {
        let (bed, bytes) = (try DownloadBed(), noise(4_000_000))
        bed.server["file"] = .init(bytes: bytes)
        let queue = try bed.queue()
        let id = try await queue.add(bed.request()).id
        bed.server.beforeEachPiece { sent in
            guard sent >= 2_000_000 else { return }
            bed.server.beforeEachPiece(nil)
            try await queue.pause(id)
            // Ends when the pause is seen.
            try await Task.sleep(for: .seconds(600))
        }
        try await queue.run(untilIdle: true)
        let record = try queue.store.record(id)
        #expect(record.state == .paused)
        #expect(record.received < UInt64(bytes.count))
        try queue.store.write {
            try $0.execute(sql: "UPDATE downloads SET state = 1, isWhole = 1, length = received")
        }
        try await bed.runUntilIdle()
        #expect(try await queue.download(id).state == .finished)
        #expect(try bed.contents() == bytes)
        #expect(try bed.names() == ["file"])
    }

    // MARK: what stays

    @Test func whatIsOverForLongIsForgotten() async throws {
        let bed = try DownloadBed()
        bed.server["file"] = .init(bytes: [1])
        let queue = try bed.queue()
        let old = try await bed.result().id
        let young = try await { () in
            var request = bed.request()
            request.replacesExisting = true
            return try await bed.result(request).id
        }()
        let failed = try await queue.add(bed.request("failed")).id
        try queue.store.write { database in
            try database.execute(
                sql: "UPDATE downloads SET ended = ended - ? WHERE id = ?",
                arguments: [DownloadStore.keptTime + 1000, Data(old.bytes)])
            try database.execute(
                sql: "UPDATE downloads SET state = 5, ended = 0 WHERE id = ?", arguments: [Data(failed.bytes)])
        }
        let new = try await queue.add(bed.request("new")).id
        #expect(try await queue.downloads().map(\.id) == [young, failed, new])
        #expect(try bed.names() == ["file"])
        try await queue.removeEnded()
        #expect(try await queue.downloads().map(\.id) == [failed, new])
    }

    @Test func onlyTheLastThousandStay() async throws {
        let bed = try DownloadBed()
        let queue = try bed.queue()
        let first = try await queue.add(bed.request()).id
        try queue.store.write { database in
            for number in 1...DownloadStore.keptCount + 5 {
                try database.execute(
                    sql: """
                        INSERT INTO downloads (id, state, priority, position, added, began, ended, request)
                        SELECT ?, 4, 0, ?, added, added, added + ?, request FROM downloads WHERE id = ?
                        """, arguments: [Data("\(number)".utf8), number + 1, number, Data(first.bytes)])
            }
        }
        _ = try await queue.add(bed.request("other"))
        let ids = try await queue.downloads().map(\.id)
        #expect(ids.count == DownloadStore.keptCount + 2)
        #expect(ids.contains(first) && !ids.contains(DownloadID(stored: Array("5".utf8))))
        #expect(ids.contains(DownloadID(stored: Array("6".utf8))))
    }
}
