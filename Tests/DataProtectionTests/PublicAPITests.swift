import DataProtectionNotifications
import Foundation
import Synchronization
import Testing

@testable import DataProtection

/// What an application meets that uses the library: names that cannot be misread, and Foundation's types beside ours.
@Suite struct PublicAPITests {
    /// Foundation's `Operation`, beside an import of the library.
    private final class Work: Operation, @unchecked Sendable {  // never started
        override func main() {}
    }

    @Test func `Foundation's Operation keeps its name`() {
        #expect(!Work().isFinished)
    }

    // MARK: the class called none

    @Test func `As none is the class none`() throws {
        let bed = try FileTestBed()
        let program = bed.keybag
        program.defaultProtection = .of(.complete)
        try ProtectedFile.create(bed.path("created"), as: .none, keybag: program).close()
        try ProtectedFile.open(bed.path("opened"), .readWrite, create: .none, keybag: program).close()
        try ProtectedFileWriter(bed.path("written"), as: .none, keybag: program).finish()
        try ProtectedFile.create(bed.path("default"), keybag: program).close()
        for name in ["created", "opened", "written"] {
            #expect(try ProtectedFileInfo(of: bed.path(name)).protectionClass == ProtectionClass.none, "\(name)")
        }
        #expect(try ProtectedFileInfo(of: bed.path("default")).protectionClass == .complete)
        try program.rekey(fileAt: bed.path("default"))
        #expect(try ProtectedFileInfo(of: bed.path("default")).protectionClass == .complete, "it keeps its class")
        try program.rekey(fileAt: bed.path("default"), as: .none)
        #expect(try ProtectedFileInfo(of: bed.path("default")).protectionClass == ProtectionClass.none)
    }

    @Test func `A default of none is the class none and not the absence of a default`() throws {
        let bed = try FileTestBed()
        #expect(bed.keybag.defaultProtection == .unspecified)
        bed.keybag.defaultProtection = .of(.none)
        #expect(bed.keybag.defaultProtection == .of(.none))
        try ProtectedFile.create(bed.path("f"), keybag: bed.keybag).close()
        #expect(try ProtectedFileInfo(of: bed.path("f")).protectionClass == ProtectionClass.none)
        bed.keybag.defaultProtection = .unspecified
        try ProtectedFile.create(bed.path("g"), keybag: bed.keybag).close()
        #expect(try ProtectedFileInfo(of: bed.path("g")).protectionClass == .completeUntilFirstUserAuthentication)
    }

    @Test func `A file is raised to a class and to none it is not raised`() throws {
        let bed = try FileTestBed()
        try ProtectedFile.create(bed.path("f"), as: .completeUnlessOpen, raiseTo: .complete, keybag: bed.keybag).close()
        #expect(try ProtectedFileInfo(of: bed.path("f")).protectionClass == .complete)
        try ProtectedFile.create(bed.path("g"), as: .completeUnlessOpen, raiseTo: .none, keybag: bed.keybag).close()
        #expect(try ProtectedFileInfo(of: bed.path("g")).protectionClass == .completeUnlessOpen)
    }

    @Test(arguments: ProtectionClass.allCases)
    func `A class and Foundation's name of it lead to each other`(_ protectionClass: ProtectionClass) {
        #expect(ProtectionClass(FileProtectionType(protectionClass)) == protectionClass)
    }

    @Test func `A name of Foundation's that is no class here is none of ours`() {
        #expect(ProtectionClass(FileProtectionType(rawValue: "NSFileProtectionCompleteWhenUserInactive")) == nil)
    }

    // MARK: errors

    @Test func `An error says what the command says`() {
        let error = DataProtectionError.notProtected("/a b")
        #expect(error.errorDescription == "'/a b' is not a protected file")
        #expect(error.localizedDescription == error.errorDescription)
        #expect(error.recoverySuggestion == "protect it first: protectfs protect '/a b'")
        #expect(error.failureReason == nil)
        let locked = DataProtectionError.because(
            KeybagFailure.locked(path: "f", .complete, .read, state: .beforeFirstUnlock, since: nil))
        #expect(locked.failureReason == "not unlocked since the machine started")
        #expect(DataProtectionError.system("f", operation: "open", .noSpace).failureReason == Errno.noSpace.spoken)
        #expect(FormatError.notOurs.localizedDescription == "not a protected file")
        #expect(RecoveryCodeTypo.checksum(likelyGroup: 3).localizedDescription == "a typo, most likely in group 3")
    }

    @Test func `Errors are equal if their cases and all that they carry are equal`() {
        let errors: [DataProtectionError] = [
            .because(KeybagFailure.keybagNotFound("p")), .because(KeybagFailure.keybagNotFound("q")),
            .because(KeybagFailure.keybagExists("p")), .because(FileFailure.needsRekey("p")),
            .because(TreeFailure.setAside("p")),
            .notProtected("p"), .unsupported("p", what: "w"), .unsupported("p", what: "v"), .busy("p"), .exists("p"),
            .notRegularFile("p"), .hasHardLinks("p", count: 2), .hasHardLinks("p", count: 3),
            .keybagUnsafe("p", reason: "w"), .usedElsewhere("p"), .damaged("p", .head, reason: "r", offset: nil),
            .damaged("p", .head, reason: "r", offset: 0), .damaged("p", .chunk, reason: "r", offset: 0),
            .system("p", operation: "open", .noSpace), .system("p", operation: "read", .noSpace),
            .system("p", operation: "open", .ioError), .cryptography(.unwrapFailed),
        ]
        #expect(Set(errors).count == errors.count)
        for (index, error) in errors.enumerated() {
            #expect(errors.indices.filter { errors[$0] == error } == [index], "\(error)")
        }
    }

    @Test func `The failure of a layer is found in the one error that an application catches`() throws {
        let bed = try FileTestBed()
        try bed.make("f", .complete)
        try bed.keybag.lock()
        do {
            _ = try ProtectedFile.open(bed.path("f"), keybag: bed.keybag)
            Issue.record("a locked file was opened")
        } catch .because(KeybagFailure.locked(let path, .complete, .open, state: .locked, since: _)) {
            #expect(path == bed.path("f"))
        }
        let error = #expect(throws: (any Error).self) { try Keybag(at: bed.path("nothing")) }
        guard case .because(KeybagFailure.keybagNotFound)? = error as? DataProtectionError else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test func `A Cocoa error has the words of the error underneath`() throws {
        let bed = try FileTestBed()
        try bed.make("f", .complete)
        try bed.keybag.lock()
        let url = URL(filePath: bed.path("f").string)
        let error = #expect(throws: CocoaError.self) { _ = try Data(contentsOf: url, protectedBy: bed.keybag) }
        let bridged = try #require(error) as NSError
        #expect(bridged.dataProtectionError?.caseName == "locked")
        #expect(bridged.localizedDescription == bridged.dataProtectionError?.errorDescription)
        #expect(bridged.localizedRecoverySuggestion?.hasPrefix("unlock first: protectfs unlock") == true)
    }

    @Test func `The error underneath is found through other errors and an error that is none of ours has none`() {
        let ours = DataProtectionError.busy("f")
        let outer = CocoaError(.fileReadUnknown, userInfo: ["NSUnderlyingError": ours])
        #expect((ours as any Error).dataProtectionError == ours)
        #expect(CocoaError(.fileReadUnknown, userInfo: ["NSUnderlyingError": outer]).dataProtectionError == ours)
        #expect(CocoaError(.fileReadUnknown).dataProtectionError == nil)
        #expect(CancellationError().dataProtectionError == nil)
    }

    // MARK: secrets

    @Test func `A secret is copied from bytes, data and text`() {
        func bytes(_ secret: borrowing SecretBytes) -> [UInt8] { secret.withUnsafeBytes { Array($0) } }
        #expect(bytes(SecretBytes(copyOf: [1, 2, 3])) == [1, 2, 3])
        #expect(bytes(SecretBytes(copyOf: Data([4, 5]))) == [4, 5])
        #expect(bytes(SecretBytes(copyOf: "é")) == [0xC3, 0xA9])
        #expect(bytes(SecretBytes(copyOf: "")) == [])
    }

    // MARK: times

    @Test func `Times are dates and durations`() throws {
        let bag = try TestKeybag()
        let start = Date(timeIntervalSinceNow: -1)  // the ring counts whole seconds
        try bag.keybag.unlock(passcode: SecretBytes(copyOf: TestKeybag.passcode), for: .seconds(1000))
        let status = try bag.keybag.status()
        #expect(try #require(status.unlockedSince) > start)
        #expect(try #require(status.timeUntilLock) <= .seconds(1000))
        #expect(status.retryAfter == .zero)
        let armed = try #require(try bag.keybag.armLock(after: .milliseconds(99_500)))
        #expect(armed.timeLeft > .zero && armed.timeLeft <= .seconds(100))
        #expect(try bag.keybag.lock(waiting: .seconds(60)).isClean)
        #expect(try bag.keybag.status().timeUntilLock == nil)
        #expect(try #require(try bag.keybag.status().lastTransition) > start)
    }

    @Test func `A part of a second counts as a whole one`() {
        #expect(Duration.milliseconds(1).wholeSeconds == 1)
        #expect(Duration.seconds(2).wholeSeconds == 2)
        #expect(Duration.seconds(-3).wholeSeconds == 0)
    }

    // MARK: unlock, without waiting on a thread of Swift's pool

    @Test func `An unlock in asynchronous code unlocks, and throws what the other one throws`() async throws {
        let bag = try TestKeybag()
        let passcode = SecretBytes(copyOf: TestKeybag.passcode)
        try await bag.keybag.unlock(passcode: passcode)
        #expect(try bag.keybag.state() == .unlocked)
        let wrong = SecretBytes(copyOf: "not this one")
        do throws(DataProtectionError) {
            try await bag.keybag.unlock(passcode: wrong)
            Issue.record("a wrong passcode unlocked")
        } catch {
            #expect(error.caseName == "wrongPasscode")
        }
    }

    @Test func `However much work blocks, other tasks get a thread`() async throws {
        // Where the unlock waits. Were these threads of the pool, the last task would never begin.
        final class Gate: Sendable {
            let isShut = Mutex(true)
        }
        let gate = Gate()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<2 * ProcessInfo.processInfo.activeProcessorCount + 2 {
                group.addTask {
                    try await BlockingWork.run { () throws(DataProtectionError) in
                        while gate.isShut.withLock({ $0 }) { usleep(1000) }
                    }
                }
            }
            group.addTask { gate.isShut.withLock { $0 = false } }
            try await group.waitForAll()
        }
    }

    // MARK: one version

    private static func text(_ byte: UInt8) -> [UInt8] { [UInt8](repeating: byte, count: 100_000) }

    @Test func `Pieces of a file that is overwritten meanwhile are refused`() async throws {
        let bed = try FileTestBed()
        try bed.make("f", .complete, Self.text(1))
        let reader = try ProtectedFile.open(bed.path("f"), keybag: bed.keybag)
        var pieces = reader.chunks(ofBytes: 30_000).makeAsyncIterator()
        #expect(try await pieces.next()?.first == 1)
        let writer = try ProtectedFile.open(bed.path("f"), .readWrite, keybag: bed.keybag)
        try writer.write(Self.text(2), at: 0)
        #expect(try await pieces.next() == Data(Self.text(1)[..<30_000]), "not committed yet")
        try writer.close()
        let error = await #expect(throws: DataProtectionError.self) { try await pieces.next() }
        #expect(error == .busy(bed.path("f")))
        var read: [UInt8] = []
        for try await piece in reader.chunks(ofBytes: 30_000) { read += piece }
        #expect(read == Self.text(2), "a new iterator reads the new version")
    }

    @Test func `Pieces of a handle that is written to itself are refused`() async throws {
        let bed = try FileTestBed()
        try bed.make("f", .complete, Self.text(1))
        let file = try ProtectedFile.open(bed.path("f"), .readWrite, keybag: bed.keybag)
        var pieces = file.chunks(ofBytes: 30_000).makeAsyncIterator()
        #expect(try await pieces.next()?.first == 1)
        try file.write(Self.text(2), at: 0)
        let error = await #expect(throws: DataProtectionError.self) { try await pieces.next() }
        #expect(error == .busy(bed.path("f")))
        try file.close()
    }

    @Test func `A file that takes another one's name leaves the pieces of the first as they are`() async throws {
        let bed = try FileTestBed()
        try bed.make("f", .complete, Self.text(1))
        var pieces = try ProtectedFile.open(bed.path("f"), keybag: bed.keybag).chunks(ofBytes: 60_000)
            .makeAsyncIterator()
        #expect(try await pieces.next()?.first == 1)
        try bed.makeWhole("f", .complete, Self.text(2))
        #expect(try await pieces.next() == Data(Self.text(1)[60_000...]))
        #expect(try await pieces.next() == nil)
    }

    // MARK: URLs

    @Test func `Everything that takes a path takes a file URL`() throws {
        let bed = try FileTestBed()
        func url(_ name: String) -> URL { URL(filePath: bed.path(name).string) }
        let keybag = try Keybag(at: URL(filePath: bed.keybag.directory.string))
        #expect(keybag.uuid == bed.keybag.uuid)
        try ProtectedFile.create(url("ü f"), as: .complete, keybag: keybag).close()
        let file = try ProtectedFile.open(url("ü f"), .readWrite, keybag: keybag)
        try file.write(Self.text(3), at: 0)
        try file.close()
        #expect(try ProtectedFileInfo(of: url("ü f")).size == 100_000)
        #expect(try keybag.unprotect(url("ü f")) == .converted)
        #expect(try keybag.protect(url("ü f"), as: .none) == .converted)
        try keybag.rekey(fileAt: url("ü f"), as: .complete)
        #expect(try keybag.verify(url("ü f"))?.findings == [])
        try ProtectedFileWriter(url("w"), as: .complete, keybag: keybag).finish()
        try ProtectedFile.copyCiphertext(from: url("w"), to: url("copy"))
        #expect(try bed.names().sorted() == ["copy", "w", "ü f"])
    }

    @Test func `A URL that is no file is refused`() throws {
        let bed = try FileTestBed()
        let page = try #require(URL(string: "https://example.org/f"))
        let error = #expect(throws: DataProtectionError.self) {
            _ = try ProtectedFile.open(page, keybag: bed.keybag)
        }
        #expect(error?.caseName == "notRegularFile")
    }
}
