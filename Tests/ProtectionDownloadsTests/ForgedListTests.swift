import FaultServer
import Foundation
import GRDB
import ProtectionFormat
import ProtectionKeys
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// Somebody who has no key writes to the list and to the files of its downloads while the keybag is locked. What an unlocked runner makes
/// of that is what the server has, or an error, and never something else.
@Suite struct ForgedListTests {
    private let bed: DownloadBed
    private let bytes = noise(700_000)

    init() throws {
        bed = try DownloadBed()
        bed.server["file"] = .init(bytes: bytes)
    }

    private func sql(_ statements: String, _ arguments: StatementArguments = []) throws {
        try bed.queue().store.write { try $0.execute(sql: statements, arguments: arguments) }
    }

    /// Runs the list until so many bytes of one answer were sent, and ends it there.
    private func stop(after count: Int) async throws {
        try await bed.run(bed.queue(), untilSent: count)
        bed.server.beforeEachPiece(nil)
    }

    /// A download in two parts of 200,000 bytes, which cannot be put together before the unlock.
    private func twoParts() async throws -> PartialName {
        let id = try await bed.queue().add(bed.request()).id
        try await stop(after: 200_000)
        try bed.keybag.lock()
        try await stop(after: 200_000)
        #expect(try bed.names().count == 2)
        return PartialName(target: bed.path("file"), id: id)
    }

    private func expectFinished(_ id: DownloadID) async throws {
        try bed.unlock()
        try await bed.runUntilIdle()
        let download = try await bed.queue().download(id)
        #expect(download.state == .finished, "\(String(describing: download.failure))")
        #expect(try bed.names() == ["file"])
        #expect(try bed.contents() == bytes)
    }

    // MARK: parts

    @Test("A part does not go to another offset because the list says so in clear")
    func offsetsInClear() async throws {
        let name = try await twoParts()
        try sql(
            """
            INSERT OR REPLACE INTO segments SELECT id, 0, 0, 200000 FROM downloads;
            INSERT OR REPLACE INTO segments SELECT id, 1, 100000, 200000 FROM downloads;
            """)
        try await expectFinished(name.id)
        #expect(bed.server.requests.count == 3, "nothing comes again")
    }

    @Test("Parts that change their names are not put together")
    func filesThatChangeNames() async throws {
        let name = try await twoParts()
        let (first, second, other) = (name.path(0).string, name.path(1).string, bed.path("other").string)
        try FileManager.default.moveItem(atPath: first, toPath: other)
        try FileManager.default.moveItem(atPath: second, toPath: first)
        try FileManager.default.moveItem(atPath: other, toPath: second)
        try await expectFinished(name.id)
    }

    @Test("Another file of the user's is not taken for a part, and is not written to")
    func anotherFileOfTheKeybag() async throws {
        let name = try await twoParts()
        try bed.unlock()
        let mine = noise(300_000, seed: 2)
        try bed.put(mine, "mine", as: .completeUnlessOpen)
        try FileManager.default.removeItem(atPath: name.path(0).string)
        try FileManager.default.linkItem(atPath: bed.path("mine").string, toPath: name.path(0).string)
        try await bed.runUntilIdle()
        #expect(try await bed.queue().download(name.id).state == .finished)
        #expect(try bed.contents() == bytes && bed.contents("mine") == mine)
        #expect(try bed.names() == ["file", "mine"])
    }

    /// While locked, a process of the same user has the key of the list.
    @Test(
        "No row makes a part of a file: not to copy it into a weaker one, nor to compare its digest, nor to write to it",
        arguments: [[1, 0], [0], [0, 1]])
    func aForgedRecord(_ order: [Int]) async throws {
        let bed = try DownloadBed()
        bed.server["file"] = .init(bytes: bytes)
        let mine = noise(3000, seed: 5)
        try bed.put(mine, "mine", as: .complete)
        let queue = try bed.queue()
        var request = bed.request()
        request.protectionClass = .none
        var sum = try RunningDigest(.sha256)
        try sum.update(mine)
        if order == [0] { request.checks = [.digest(.sha256, try sum.finish())] }
        let id = try await queue.add(request).id
        let name = PartialName(target: bed.path("file"), id: id)
        let own = try ProtectedFile.createLarge(name.path(order.count), as: .none, keybag: bed.keybag)
        try [1].withUnsafeBytes { try own.write($0, at: 0) }
        let planted = try SegmentRecord(number: order.count, start: 0, synced: 1, in: own, of: id)
        try own.close()
        try FileManager.default.linkItem(atPath: bed.path("mine").string, toPath: name.path(0).string)
        let taken = SegmentRecord(
            number: 0, start: 0, synced: 3000, fileID: try ProtectedFile.fileID(at: bed.path("mine")),
            seal: planted.seal)
        var parts = order.map { $0 == 0 ? taken : planted }
        if parts.count == 2 { parts[1].start = parts[0].end }
        let resource = ResourceIdentity(length: parts.last!.end)
        try queue.store.note(PartialRecord(resource: resource, parts: parts, isWhole: true), of: id)
        try await queue.run(untilIdle: true)
        #expect(try bed.contents("mine") == mine && bed.protectionClass("mine") == .complete)
        let download = try await queue.download(id)
        if order == [0] {
            #expect(download.failure?.kind == .checksum, "what the server has was compared, and nothing else")
        } else {
            #expect(download.state == .finished)
            #expect(try bed.contents() == bytes)
        }
        #expect(try name.numbers() == [])
    }

    /// The server has got another version meanwhile, and its part has the length of the one before.
    @Test(
        "A part of an earlier version, put back under the name of the present one, is not continued",
        arguments: [true, false])
    func anEarlierVersion(listIsPutBack: Bool) async throws {
        bed.server["file"] = .init(bytes: noise(700_000, seed: 3), entityTag: "\"earlier\"")
        let id = try await bed.queue().add(bed.request()).id
        let name = PartialName(target: bed.path("file"), id: id)
        try await stop(after: 200_000)
        let earlier = try Data(contentsOf: URL(fileURLWithPath: name.path(0).string))
        let noted = try #require(
            try bed.queue().store.read { try Data.fetchOne($0, sql: "SELECT resource FROM downloads") })
        bed.server["file"] = .init(bytes: bytes)
        try await stop(after: 200_000)
        #expect(try name.numbers() == [1])
        if listIsPutBack { try sql("UPDATE downloads SET resource = ?", [noted]) }
        try earlier.write(to: URL(fileURLWithPath: name.path(listIsPutBack ? 0 : 1).string))
        try await expectFinished(id)
    }

    @Test("A part that was made with the public key alone is not taken, also with the id and the size of the real one")
    func madeWithThePublicKey() async throws {
        bed.server.answer(.reset(after: 1000), .status(404, [:]))
        let id = try await bed.queue().add(bed.request()).id
        try await bed.runUntilIdle()
        let path = PartialName(target: bed.path("file"), id: id).path(0)
        #expect(try bed.contents(#require(path.lastComponent?.string)) == Array(bytes[..<1000]))
        let forged = try planted(ProtectedFile.fileID(at: path), noise(1000, seed: 4))
        try forged.write(to: URL(fileURLWithPath: path.string))
        #expect(try bed.contents(#require(path.lastComponent?.string)) == noise(1000, seed: 4), "it can be read")
        try await bed.queue().resume(id)
        try await expectFinished(id)
    }

    /// A file of class B, by somebody who has read the keybag's public key and nothing else.
    private func planted(_ fileID: [UInt8], _ text: [UInt8]) throws -> Data {
        let className = bed.keybag.activeName(.completeUnlessOpen)
        let publicKey = try #require(try bed.keybag.entry(of: className)?.publicHalf?.key)
        let prefix = Prefix(fileID: try FileID(bytes: fileID), layout: .small)
        let fileKey = try FileKey.random()
        let headKey = try fileKey.headKey(of: prefix.fileID)
        let wrap = WrapRecord(
            counter: 1, classKey: className, wrapped: try publicKey.wrap(fileKey),
            commitment: try fileKey.commitment(of: prefix.fileID), origin: .unverified)
        let record = ContentRecord(inline: UInt64(text.count), counter: 0, sealCount: 1)
        let head = Head(
            prefix: prefix, wrap: wrap, wrapBytes: try wrap.sealed(in: prefix, under: headKey),
            content: try record.sealed(in: prefix, under: headKey),
            inline: try text.withUnsafeBytes { try InlineFile.seal($0, counter: 0, in: prefix, under: headKey) })
        return Data(try head.encoded())
    }

    @Test("A part of which no length is known is not taken for whole because the list says so in clear")
    func wholeInClear() async throws {
        bed.server.answer(.noLength)
        let id = try await bed.queue().add(bed.request()).id
        try await stop(after: 200_000)
        try sql("UPDATE downloads SET isWhole = 1, length = received, furthest = received")
        try await expectFinished(id)
        #expect(bed.server.requests.last?.headers.first { $0.name == "Range" }?.value == "bytes=200000-")
    }

    @Test("Bytes that are not there are not taken for flushed")
    func bytesThatAreNotThere() async throws {
        let id = try await bed.queue().add(bed.request()).id
        try await stop(after: 200_000)
        try sql(
            """
            UPDATE downloads SET received = 700000, furthest = 700000, isWhole = 1;
            INSERT OR REPLACE INTO segments SELECT id, 0, 0, 700000 FROM downloads;
            """)
        try await expectFinished(id)
    }

    @Test("The stored state of one download is refused as that of another one")
    func exchanged() async throws {
        bed.server["other"] = .init(bytes: noise(700_000, seed: 5))
        let id = try await bed.queue().add(bed.request()).id
        try await stop(after: 200_000)
        let other = try await bed.queue().add(bed.request("other")).id
        try sql(
            "UPDATE downloads SET resource = (SELECT resource FROM downloads WHERE id = ?) WHERE id = ?",
            [Data(id.bytes), Data(other.bytes)])
        try await bed.runUntilIdle()
        #expect(try await bed.queue().download(other).failure?.kind == .damaged)
        #expect(try bed.contents() == bytes)
    }

    // MARK: credentials

    private func server() throws -> FaultServer {
        let server = try FaultServer()
        try server.answer("/file", Answer(length: 1000))
        try server.guardPaths("/", .basic("user", "right"))
        return server
    }

    /// The second one may believe another server under the same name: its trust is its own.
    @Test(
        "A credential of one download is sent for no other one, also where its row says so", arguments: [true, false])
    func anotherDownload(isForAll: Bool) async throws {
        let (server, queue) = (try server(), try DownloadQueue(bed.keybag))
        var request = try bed.request(server)
        request.credentials = [try .password("user", "right", at: server)]
        let first = try await queue.add(request).id
        let second = try await queue.add(bed.request(server, as: "second")).id
        try sql("UPDATE credentials SET download = ?", [isForAll ? nil : Data(second.bytes)])
        try await queue.run(untilIdle: true)
        #expect(try server.authorizations.isEmpty)
        #expect(try bed.names().isEmpty)
        #expect(try await queue.credentials().isEmpty)
        for id in [first, second] { #expect(try await queue.download(id).state == .failed) }
        // It is given again, and the first one goes on.
        try await queue.setCredentials([.password("user", "right", at: server)], of: first)
        #expect(try await bed.again(first).state == .finished)
        #expect(try server.authorizations.count == 1)
    }

    // MARK: the key of the list

    @Test(
        "A key that anybody could have put there is not the key of a list",
        arguments: [ProtectionClass.completeUnlessOpen, .none])
    func anotherKey(_ protectionClass: ProtectionClass) async throws {
        let queue = try bed.queue()
        let key = queue.store.directory.appending("key")
        let writer = try ProtectedFileWriter(key, as: protectionClass, keybag: bed.keybag, replacing: false)
        try noise(32).withUnsafeBytes { try writer.append($0) }
        try writer.finish()
        let error = await #expect(throws: DownloadError.self) { try await queue.add(bed.request()) }
        guard case .storeDamaged(key, _)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    // MARK: earlier versions

    @Test("A list of a version that kept parts in clear opens, and downloads under way start again")
    func partsOfAnEarlierVersion() async throws {
        let name = try await twoParts()
        let queue = try bed.queue()
        let json = try JSONEncoder().encode(ResourceIdentity(entityTag: "\"1\"", length: 700_000))
        let sealed = try queue.store.seal(Array(json), .resource, row: name.id.bytes)
        try sql("UPDATE downloads SET resource = ?", [Data(sealed)])
        try sql(
            """
            INSERT INTO segments SELECT id, 0, 0, 200000 FROM downloads;
            INSERT INTO segments SELECT id, 1, 200000, 200000 FROM downloads;
            """)
        try await expectFinished(name.id)
        #expect(bed.server.requests.last?.headers.contains { $0.name == "Range" } == false)
    }

    @Test("A credential that an earlier version gave to a download must be given again, and the failure says so")
    func credentialOfAnEarlierVersion() async throws {
        let (server, queue) = (try server(), try DownloadQueue(bed.keybag))
        let id = try await queue.add(bed.request(server)).id
        let (row, space) = (noise(16), StoredSpace(ProtectionSpace(host: "localhost", port: server.port)))
        let entry = CredentialRecord.Entry(space: space, kind: .password, name: "user")
        let sealed = try queue.store.seal(Array(JSONEncoder().encode(entry)), .credentialEntry, row: row)
        let secret = try queue.store.seal(DownloadBed.secret("right"), .credentialSecret, row: row)
        try sql(
            "INSERT INTO credentials (id, position, download, entry, secret) VALUES (?, 1, ?, ?, ?)",
            [Data(row), Data(id.bytes), Data(sealed), Data(secret)])
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(id).failure?.message.contains("again") == true)
        #expect(try server.authorizations.isEmpty)
        try await queue.setCredentials([.password("user", "right", at: server)], of: id)
        #expect(try await bed.again(id).state == .finished)
    }
}
