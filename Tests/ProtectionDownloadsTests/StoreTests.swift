import Foundation
import GRDB
import ProtectionKeys
import Testing

@testable import DataProtection
@testable import ProtectionDownloads

@Suite struct StoreTests {
    /// Everything a list is told that others must not read.
    private let planted = [
        "planted-path", "planted-header", "planted-name", "planted-value", "planted-key-id", "planted-user",
        "planted-password", "planted-token",
    ]

    @Test("An error says what is wrong to an application too")
    func words() {
        #expect(DownloadError.targetExists("/a b").localizedDescription == "'/a b' exists already")
        let failure = DownloadFailure(.refused, "404\nNot Found", status: 404)
        #expect(failure.localizedDescription == "404; Not Found")
        #expect(DownloadError.failed(failure).localizedDescription == "404; Not Found")
    }

    private func plant(_ bed: DownloadBed) async throws -> DownloadQueue {
        let queue = try bed.queue()
        var request = bed.request("planted-name")
        request.url = URL(string: "https://server.test/planted-path")!
        request.headers = [HTTPHeader("planted-header", "planted-value")]
        request.name = "planted-name"
        let space = ProtectionSpace(host: "server.test", port: 443)
        request.credentials = [
            try DownloadCredential(.password(user: "planted-user", .text("planted-password")), for: space)
        ]
        _ = try await queue.addCredential(DownloadCredential(.token(.text("planted-token")), for: space))
        bed.server["planted-path"] = .init(bytes: noise(100_000), entityTag: "\"planted-value\"")
        bed.server.answer(.reset(after: 50_000), .status(404, [:]))
        try await queue.addIntegrityKey(
            IntegrityKey(id: "planted-key-id", DownloadBed.secret(String(repeating: "planted-value", count: 3))))
        _ = try await queue.add(request)
        try await queue.run(untilIdle: true)
        return queue
    }

    /// "Must show" 6: in no file of the keybag's directory, the write-ahead log included.
    @Test(arguments: [ProtectionState.unlocked, .locked, .beforeFirstUnlock])
    func nothingIsInClear(_ state: ProtectionState) async throws {
        let bed = try DownloadBed()
        let queue = try await plant(bed)
        if state != .unlocked { try bed.keybag.lock() }
        if state == .beforeFirstUnlock { try bed.forgetEverything() }
        // What is in clear is found: a search that finds nothing would prove nothing.
        let controls = ["clear-in-the-log", "clear-in-a-file.test"]
        try queue.store.write { try $0.execute(sql: "CREATE TABLE control AS SELECT '\(controls[0])'") }
        let digest = String(repeating: "ab", count: 32)
        try queue.trustExceptions.add(
            TrustException(host: controls[1], port: 443, certificate: digest, reasons: [.expired]))
        var found: Set<String> = []
        let files = try #require(FileManager.default.enumerator(atPath: bed.keybag.directory.string))
        var seen: [String] = []
        for case let name as String in files {
            guard let data = FileManager.default.contents(atPath: bed.keybag.directory.appending(name).string) else {
                continue
            }
            seen.append(name)
            found.formUnion(controls.filter { data.range(of: Data($0.utf8)) != nil })
            for text in planted {
                #expect(data.range(of: Data(text.utf8)) == nil, "\(text) is in \(name)")
                #expect(data.range(of: Data(text.utf16.flatMap { [UInt8($0), 0] })) == nil, "\(text) is in \(name)")
            }
        }
        #expect(found == Set(controls))
        #expect(["", "-wal", "-shm"].allSatisfy { seen.contains("downloads/queue.sqlite" + $0) })
        withExtendedLifetime(queue) {}
    }

    @Test(.enabled(if: StoreMachine.own != nil, "there is no /etc/machine-id"))
    func ofAnotherMachine() throws {
        let bed = try DownloadBed()
        _ = try bed.queue()
        let note = bed.keybag.directory.appending("downloads/machine").string
        try (String(repeating: "b2", count: 16) + "\n").write(toFile: note, atomically: false, encoding: .utf8)
        #expect {
            _ = try bed.queue()
        } throws: {
            if case .protection(.usedElsewhere)? = $0 as? DownloadError { true } else { false }
        }
        try FileManager.default.removeItem(atPath: note)
        _ = try bed.queue()
    }

    @Test func modes() async throws {
        let bed = try DownloadBed()
        let queue = try await plant(bed)
        let directory = bed.keybag.directory.appending("downloads")
        for name in try FileManager.default.contentsOfDirectory(atPath: directory.string) {
            let mode = try FileManager.default.attributesOfItem(atPath: directory.appending(name).string)[
                .posixPermissions]
            #expect(mode as? Int == 0o600, "\(name)")
        }
        withExtendedLifetime(queue) {}
    }

    /// A value opens in its table, column and row only.
    @Test func valuesDoNotChangePlaces() async throws {
        let bed = try DownloadBed()
        bed.server["a"] = .init(bytes: [1])
        let queue = try bed.queue()
        let one = try await queue.add(bed.request("a"))
        let two = try await queue.add(bed.request("b"))
        try queue.store.write { database in
            try database.execute(
                sql: "UPDATE downloads SET request = (SELECT request FROM downloads WHERE id = ?) WHERE id = ?",
                arguments: [Data(one.id.bytes), Data(two.id.bytes)])
        }
        let moved = try await queue.download(two.id)
        #expect(moved.request == nil && moved.failure?.kind == .damaged)
        #expect(try await queue.download(one.id).request?.target == bed.path("a"))
    }

    /// The lock of SQLite on the database tells other processes that its log is in use.
    @Test func aSecondListOfThisProcessTakesNoLockAway() throws {
        let bed = try DownloadBed()
        let first = try bed.queue()
        let path = bed.keybag.directory.appending("downloads/queue.sqlite").string
        let inode = try #require(
            FileManager.default.attributesOfItem(atPath: path)[.systemFileNumber] as? NSNumber)
        func locks() throws -> Int {
            try String(contentsOfFile: "/proc/locks", encoding: .utf8).split(separator: "\n").filter {
                $0.contains("POSIX") && $0.contains(" \(getpid()) ") && $0.contains(":\(inode) ")
            }.count
        }
        let before = try locks()
        #expect(before > 0)
        let second = try bed.queue()
        #expect(try locks() == before)
        withExtendedLifetime((first, second)) {}
    }

    @Test func aDamagedDatabase() async throws {
        let bed = try DownloadBed()
        weak var store: DownloadStore?
        do {
            let queue = try bed.queue()
            store = queue.store
            _ = try await queue.add(bed.request())
        }
        // A thread that has just worked for it may still have it in its hands, and would write to the database as it closes it.
        while store != nil { try await Task.sleep(for: .milliseconds(1)) }
        let path = bed.keybag.directory.appending("downloads/queue.sqlite")
        for suffix in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path.string + suffix) }
        try Data(repeating: 7, count: 20_000).write(to: URL(fileURLWithPath: path.string))
        let error = #expect(throws: DownloadError.self) { try bed.queue() }
        guard case .storeDamaged(path, _)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test func aNewerDatabase() throws {
        let bed = try DownloadBed()
        try bed.queue().store.write { try $0.execute(sql: "INSERT INTO grdb_migrations VALUES ('99')") }
        let error = #expect(throws: DownloadError.self) { try bed.queue() }
        guard case .storeNewer? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    /// A new key would make every value unreadable for ever.
    @Test func theKeyIsLost() async throws {
        let bed = try DownloadBed()
        _ = try await bed.queue().add(bed.request())
        let key = bed.keybag.directory.appending("downloads/key")
        #expect(try ProtectedFileInfo(of: key).protectionClass == .completeUntilFirstUserAuthentication)
        #expect(try DownloadsDirectory.protectedFiles(of: bed.keybag) == [key])
        try FileManager.default.removeItem(atPath: key.string)
        for _ in 0..<2 {
            let error = await #expect(throws: DownloadError.self) { try await bed.queue().downloads() }
            guard case .storeKeyLost? = error else {
                Issue.record("\(String(describing: error))")
                return
            }
        }
        #expect(!FileManager.default.fileExists(atPath: key.string))
    }

    /// Class B's public key, or the device key, is enough to make a key and rows that open under it: an upload of whatever file.
    @Test(arguments: [ProtectionClass.completeUnlessOpen, .none]) func aPlantedKey(_ protectionClass: ProtectionClass)
        async throws
    {
        let bed = try DownloadBed()
        _ = try await bed.queue().add(bed.request())
        let key = bed.keybag.directory.appending("downloads/key")
        let writer = try ProtectedFileWriter(key, as: protectionClass, keybag: bed.keybag)
        try [UInt8](repeating: 7, count: StoreKey.length).withUnsafeBytes { try writer.append($0) }
        try writer.finish()
        let error = await #expect(throws: DownloadError.self) { try await bed.queue().downloads() }
        guard case .storeDamaged(key, _)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    /// Everything that a request can say comes back as it was.
    @Test func requestsAreKept() async throws {
        let bed = try DownloadBed()
        var request = bed.request()
        let digest = String(repeating: "ab", count: 32)
        request.headers = [HTTPHeader("A", "1"), HTTPHeader("A", "2")]
        request.trust = try ServerTrust(
            pins: [.server(try .publicKey(digest), try .certificate(digest)), .anyInChain(try .certificate(digest))],
            host: .expected("other.test"), distrusted: [try .certificate(digest)],
            exceptions: [try TrustException(host: "h.test", port: 4, certificate: digest, reasons: [.expired])])
        request.protectionClass = .completeUnlessOpen
        request.replacesExisting = true
        request.checks = [.length(5), .digest(.sha512, [UInt8](repeating: 1, count: 64))]
        (request.maximumLength, request.priority, request.bandwidthLimit) = (9, -3, 1000)
        request.proxy = HTTPProxy(.socks5h, host: "::1", port: 1080)
        request.spaces = [ProtectionSpace(host: "h.test", port: 443, realm: "r", method: .digest)]
        (request.name, request.allowsPlainHTTP) = ("mine", true)
        let id = try await bed.queue().add(request).id
        let kept = try #require(try await bed.queue().download(id).request)
        #expect(kept.url == request.url && kept.target == request.target && kept.headers == request.headers)
        #expect(kept.trust == request.trust && kept.spaces == request.spaces && kept.checks == request.checks)
        #expect(kept.protectionClass == request.protectionClass && kept.whileLocked == request.whileLocked)
        #expect(kept.replacesExisting && kept.allowsPlainHTTP && kept.name == "mine" && kept.retry == request.retry)
        #expect(kept.proxy == request.proxy)
        #expect(kept.maximumLength == 9 && kept.priority == -3 && kept.bandwidthLimit == 1000)
    }

    @Test func refusedCredentialsAreRemembered() async throws {
        let bed = try DownloadBed()
        let failures = StoredFailures(store: try bed.queue().store)
        let mark = try failures.mark(DownloadBed.secret("planted-credential"))
        #expect(try await !failures.contains(mark))
        try await failures.insert(mark, of: mark)
        try await failures.insert(mark, of: mark)
        let others = StoredFailures(store: try bed.queue().store)
        #expect(try await others.contains(try others.mark(DownloadBed.secret("planted-credential"))))
        #expect(try await !others.contains(try others.mark(DownloadBed.secret("another credential"))))
        let database = bed.keybag.directory.appending("downloads/queue.sqlite-wal")
        let bytes = try #require(FileManager.default.contents(atPath: database.string))
        #expect(bytes.range(of: Data("planted-credential".utf8)) == nil)
    }

    // MARK: integrity keys

    @Test func integrityKeys() async throws {
        let bed = try DownloadBed()
        let queue = try bed.queue()
        let key = try IntegrityKey(id: "k1", DownloadBed.secret("065a62448fb75fce3764dcbe68f9908d"))
        // Issue 6, "Must show" 5.
        let tag = try key.tag(of: Array("123443212300.002012-12-25 00:00:00".utf8))
        #expect(Hexadecimal.text(tag) == "51e66ca8fd8eb4bbe02fc6421e0dda1deb94f0c9518996a55bc7a4c242f1c8a9")
        try await queue.addIntegrityKey(key)
        for count in [0, 1, 31] {
            let error = #expect(throws: DownloadError.self) {
                try IntegrityKey(id: "weak", DownloadBed.secret(String(repeating: "x", count: count)))
            }
            guard case .weakIntegrityKey("weak", count)? = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
        }
        await #expect(throws: DownloadError.self) {
            try await queue.addIntegrityKey(
                try IntegrityKey(id: "k1", DownloadBed.secret(String(repeating: "x", count: 32))))
        }

        bed.server["file"] = .init(bytes: Array("123443212300.002012-12-25 00:00:00".utf8))
        var request = bed.request()
        request.checks = [.hmacSHA256(keyID: "k1", tag: tag)]
        let download = try await bed.result(request)
        #expect(download.state == .finished)
        #expect(download.file?.isTamperProof == true)

        request.target = bed.path("second")
        request.checks = [.hmacSHA256(keyID: "k1", tag: [UInt8](repeating: 0, count: 32))]
        #expect(try await bed.result(request).failure?.kind == .checksum)

        request.checks = [.hmacSHA256(keyID: "k2", tag: tag)]
        await #expect(throws: DownloadError.self) { try await queue.add(request) }
        // Retired while it waits.
        request.checks = [.hmacSHA256(keyID: "k1", tag: tag)]
        let waiting = try await queue.add(request)
        try await queue.retireIntegrityKey("k1")
        try await queue.run(untilIdle: true)
        #expect(try await queue.download(waiting.id).failure?.kind == .integrityKey)
        #expect(try await queue.integrityKeyIDs().map(\.isRetired) == [true])
        await #expect(throws: DownloadError.self) { try await queue.add(request) }
    }
}
