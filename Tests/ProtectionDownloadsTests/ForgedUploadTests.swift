import Foundation
import GRDB
import ProtectionKeys
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

/// While locked, anybody with the user's id can write to the list: its key is of class C.
@Suite("An upload that somebody locked has added") struct ForgedUploadTests {
    private let bytes = noise(300_000)

    private func request(_ bed: DownloadBed) -> DownloadRequest {
        DownloadRequest(uploading: bed.path("file"), to: URL(string: "https://server.test/file")!)
    }

    @Test(
        "An upload of a file that cannot be opened is refused; one forged into the list is never sent",
        arguments: [ProtectionClass.complete, .completeUnlessOpen])
    func addedWhileLocked(protectionClass: ProtectionClass) async throws {
        let bed = try DownloadBed()
        try bed.put(bytes, as: protectionClass)
        let taker = Taker()
        let queue = try DownloadQueue(bed.keybag, transport: taker)
        try bed.keybag.lock()
        let error = await #expect(throws: DownloadError.self) { try await queue.add(request(bed)) }
        guard case .protection(.because(KeybagFailure.locked))? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        // What anybody with the list's key can do.
        let id = try queue.store.add(request(bed))
        try bed.unlock()
        try await queue.run(untilIdle: true)
        #expect(taker.bodies.isEmpty)
        let upload = try await queue.download(id)
        #expect(upload.state == .failed && upload.failure?.message.contains("add it again") == true)
        // It is still there for that.
        let again = try #require(upload.request)
        let second = try await queue.add(again).id
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(second).state == .finished)
        #expect(taker.bodies == [bytes])
    }

    @Test(
        "An exception from trust in the list does not count for a file that is shut while locked; one of the upload does"
    )
    func exceptions() async throws {
        let bed = try DownloadBed()
        let taker = Taker()
        let queue = try DownloadQueue(bed.keybag, transport: taker)
        let certificate = String(repeating: "07", count: 32)
        let listed = try TrustException(host: "server.test", port: 443, certificate: certificate, reasons: [.expired])
        let own = try TrustException(host: "server.test", port: 443, certificate: certificate, reasons: [.hostMismatch])
        try bed.keybag.lock()
        try queue.trustExceptions.add(listed)
        try bed.unlock()
        for protectionClass in ProtectionClass.allCases {
            try? FileManager.default.removeItem(atPath: bed.path("file").string)
            try bed.put(bytes, as: protectionClass)
            var request = request(bed)
            request.trust = request.trust.excepting([own])
            _ = try await queue.add(request)
            try await queue.run(untilIdle: true)
            let isShut = [.complete, .completeUnlessOpen].contains(protectionClass)
            #expect(taker.trusts.last?.exceptions == (isShut ? [own] : [own, listed]), "\(protectionClass)")
        }
        #expect(taker.bodies.count == 4)
    }

    @Test("A finished or cancelled upload is not sent after its state was set back while locked")
    func revived() async throws {
        let bed = try DownloadBed()
        try bed.put(bytes, as: .complete)
        let taker = Taker()
        let queue = try DownloadQueue(bed.keybag, transport: taker)
        let id = try await queue.add(request(bed)).id
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(id).state == .finished)
        let file = try ProtectedFile.open(bed.path("file"), .readWrite, keybag: bed.keybag)
        try Array("written since".utf8).withUnsafeBytes { try file.write($0, at: Int64(bytes.count)) }
        try file.close()
        try bed.keybag.lock()
        try queue.store.write { try $0.execute(sql: "UPDATE downloads SET state = 1, result = NULL") }
        try bed.unlock()
        try await queue.run(untilIdle: true)
        let upload = try await queue.download(id)
        #expect(upload.state == .failed && upload.failure?.message.contains("add it again") == true)
        let cancelled = try await queue.add(request(bed)).id
        try await queue.cancel(cancelled)
        try bed.keybag.lock()
        try queue.store.write {
            try $0.execute(sql: "UPDATE downloads SET state = 1 WHERE id = ?", arguments: [Data(cancelled.bytes)])
        }
        try bed.unlock()
        try await queue.run(untilIdle: true)
        #expect(taker.bodies == [bytes])
    }

    @Test("A mark is of one upload: altered, or in another row, it sends nothing, and beside it nothing counts")
    func foreignMark() async throws {
        let bed = try DownloadBed()
        try bed.put(bytes, as: .complete)
        let taker = Taker()
        let queue = try DownloadQueue(bed.keybag, transport: taker)
        let store = queue.store
        let good = try await queue.add(request(bed)).id
        try await queue.pause(good)
        let rows = try store.read { try Row.fetchAll($0, sql: "SELECT request FROM downloads") }
        let stored: StoredRequest = try #require(try store.decode(rows[0]["request"], .request, good))
        let mark = try #require(stored.marked)
        let evil = DownloadRequest(uploading: bed.path("file"), to: URL(string: "https://evil.test/file")!)
        let altered = StoredMark(
            request: mark.request.replacingOccurrences(of: "server.test", with: "evil.test"),
            generation: mark.generation, tag: mark.tag)
        #expect(altered.request != mark.request)
        try bed.keybag.lock()
        for marked in [altered, mark] {
            let id = try store.add(request(bed))
            let sealed = try store.encode(StoredRequest(evil, marked), .request, id)
            try store.write {
                try $0.execute(
                    sql: "UPDATE downloads SET request = ? WHERE id = ?", arguments: [sealed, Data(id.bytes)])
            }
        }
        let sealed = try store.encode(StoredRequest(evil, mark), .request, good)
        try store.write {
            try $0.execute(sql: "UPDATE downloads SET request = ? WHERE id = ?", arguments: [sealed, Data(good.bytes)])
        }
        try bed.unlock()
        try await queue.run(untilIdle: true)
        #expect(taker.bodies.isEmpty)
        try await queue.resume(good)
        #expect(try await queue.download(good).request?.url.host() == "server.test")
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(good).state == .finished)
    }

    /// While locked, an upload of a file that opens then is nobody's secret, and is begun. Then another file takes its place.
    @Test("A body is the file, and of the class, that was judged: another one in its place is not sent")
    func exchanged() throws {
        let bed = try DownloadBed()
        let place = URL(fileURLWithPath: bed.path("file").string)
        let secrets: [Data.WritingOptions] = [
            .completeFileProtection, .completeFileProtectionUntilFirstUserAuthentication,
        ]
        for other in secrets + [nil] {
            try? FileManager.default.removeItem(at: place)
            try bed.put(bytes, as: .completeUntilFirstUserAuthentication)
            let body = try ProtectedFileBody(bed.path("file"), keybag: bed.keybag)
            try body.requireAdder(of: request(bed), bed.keybag)
            var piece = [UInt8](repeating: 0, count: 1000)
            func read() throws -> Int { try piece.withUnsafeMutableBytes { try body.read(into: $0, at: 70_000) } }
            #expect(try read() == 1000 && piece == Array(bytes[70_000..<71_000]))
            if other == nil {
                try FileManager.default.setAttributes(
                    [.protectionKey: FileProtectionType.complete], ofItemAtPath: place.path, protectedBy: bed.keybag)
            } else {
                let secret = URL(fileURLWithPath: bed.path("secret").string)
                try Data(noise(300_000)).write(to: secret, options: other ?? [], protectedBy: bed.keybag)
                let file = try FileHandle(forWritingTo: place)
                try file.truncate(atOffset: 0)
                try file.write(contentsOf: Data(contentsOf: secret))
                try file.close()
            }
            #expect(throws: DownloadError.self) { try read() }
        }
    }

    /// While locked, anybody with the user's id can exchange two names.
    @Test("The file that was added is sent, and no other one that has its name by then, nor one that a link leads to")
    func exchangedNames() async throws {
        for isLink in [false, true] {
            let bed = try DownloadBed()
            try bed.put(bytes, as: .complete)
            try bed.put(noise(1000), "diary", as: .complete)
            let taker = Taker()
            let queue = try DownloadQueue(bed.keybag, transport: taker)
            let upload = try await queue.add(request(bed)).id
            let place = bed.path("file").string
            #expect(rename(place, bed.path("old").string) == 0)
            #expect((isLink ? symlink("diary", place) : rename(bed.path("diary").string, place)) == 0)
            try await queue.run(untilIdle: true)
            #expect(taker.bodies.isEmpty)
            #expect(try await queue.download(upload).state == .failed)
            try FileManager.default.removeItem(atPath: place)
            #expect(rename(bed.path("old").string, place) == 0)
            try await queue.resume(upload)
            try await queue.run(untilIdle: true)
            #expect(taker.bodies == [bytes])
        }
    }
}
