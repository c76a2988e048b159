import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

@Suite("The record of wrong passcodes on disk")
struct KeybagAttemptFileTests {
    @Test("A success forgets count and tag in both sectors")
    func successClears() throws {
        let bag = try TestKeybag()
        try bag.guessWrongly(times: 3)
        try bag.unlock()
        let sectors = try bag.attemptSectors()
        #expect(sectors.map { $0?.failures } == [0, 0])
        #expect(sectors.map { $0?.guessTag } == [nil, nil])
        #expect(sectors.allSatisfy { $0 != nil })
        let error = expectError("wrongPasscode") { try bag.unlock("wrong 2") }
        #expect(
            error == .because(KeybagFailure.wrongPasscode(keybag: bag.directory, failures: 1, retryAfter: .seconds(0))))
    }

    @Test("Two attempts write one sector each, the newer one wins")
    func sectorsInTurn() throws {
        let bag = try TestKeybag()
        var last = try #require(try bag.attempts())
        for _ in 0..<4 {
            _ = try bag.keybag.attempts.begin()
            let sectors = try bag.attemptSectors()
            #expect(sectors.contains(last), "the record before is still there, should the write have torn the other")
            let now = try #require(try bag.attempts())
            #expect(now.sequence == last.sequence + 1)
            #expect(now.failures == last.failures + 1)
            last = now
        }
    }

    @Test("The right passcode's tag is never on disk, not even while it is tried")
    func rightTag() throws {
        let bag = try TestKeybag()
        let right = try #require(try bag.tag(of: TestKeybag.passcode))
        var tags: Set<UInt16> = []
        func look() throws { tags.formUnion(try bag.attemptSectors().compactMap { $0?.guessTag }) }

        expectError("wrongPasscode") { try bag.unlock("wrong") }
        try look()
        let wrong = try #require(try bag.tag(of: "wrong"))
        #expect(tags == [wrong])
        let loaded = try bag.keybag.file.load()
        _ = try bag.keybag.attempts.begin()
        try look()
        _ = try bag.keybag.openWithPasscode(secret(TestKeybag.passcode), loaded)
        try look()
        try bag.unlock()
        try look()
        #expect(!tags.contains(right))
        #expect(tags.count == 1)
    }

    @Test("A stolen disk has nothing to test a guess against")
    func nothingToTest() throws {
        let bag = try TestKeybag()
        var (stored, derived): ([UInt16?], [UInt16?]) = ([], [])
        for guess in ["a", "b", "c"] {
            expectError("wrongPasscode") { try bag.unlock(guess) }
            stored.append(try bag.attempts()?.guessTag)
            derived.append(try bag.guessTag(of: guess))
        }
        #expect(!stored.contains(nil))
        #expect(stored != derived, "a tag of 16 bits can be equal by chance, three cannot")
    }

    @Test("Without its key in the keyring, as after a boot, a stored tag matches nothing")
    func keyIsGone() throws {
        let bag = try TestKeybag()
        expectError("wrongPasscode") { try bag.unlock("a") }
        try bag.keybag.ring.evict(everything: true)
        let error = expectError("wrongPasscode") { try bag.unlock("a") }
        #expect(
            error == .because(KeybagFailure.wrongPasscode(keybag: bag.directory, failures: 2, retryAfter: .seconds(0))))
        let again = expectError("wrongPasscode") { try bag.unlock("a") }
        #expect(
            again == .because(KeybagFailure.wrongPasscode(keybag: bag.directory, failures: 2, retryAfter: .seconds(0))))
    }

    @Test("The key of the tag leaves the keyring with the right passcode, and is never taken for a class key")
    func keyLeaves() throws {
        let bag = try TestKeybag()
        expectError("wrongPasscode") { try bag.unlock("a") }
        #expect((try? bag.keybag.ring.guessTag.find()) != nil)
        #expect(try bag.keybag.state() == .beforeFirstUnlock)
        #expect(try !Keybag.loaded().contains(bag.keybag.uuid))
        try bag.unlock()
        #expect((try? bag.keybag.ring.guessTag.find()) == nil)
    }

    @Test("One damaged sector: the other one counts", arguments: [0, 1])
    func oneDamaged(sector: Int) throws {
        let bag = try TestKeybag()
        try bag.guessWrongly(times: 3)
        let other = try #require(try bag.attemptSectors()[1 - sector])
        var bytes = try bag.file("attempts").contents()
        bytes[512 * sector + 33] ^= 1
        try bag.file("attempts").overwrite(bytes)
        let error = expectError("wrongPasscode") { try bag.unlock("another") }
        #expect(
            error
                == .because(
                    KeybagFailure.wrongPasscode(
                        keybag: bag.directory, failures: Int(other.failures) + 1, retryAfter: .seconds(0))))
        #expect(try bag.attemptSectors().allSatisfy { $0 != nil })
    }

    @Test("No valid sector wins no free try", arguments: Damage.allCases)
    func damaged(damage: Damage) throws {
        let bag = try TestKeybag()
        try damage.apply(to: bag)
        let error = expectError("throttled") { try bag.unlock() }
        #expect(error == .because(KeybagFailure.throttled(keybag: bag.directory, retryAfter: .seconds(3600))))
        #expect(bag.ringContents == [])
        #expect(try bag.attempts()?.failures == 8)
        #expect(try bag.attempts()?.keybag == bag.keybag.uuid)
        let again = expectError("throttled") { try bag.reopened().unlock(passcode: secret(TestKeybag.passcode)) }
        guard case .because(KeybagFailure.throttled(_, let retryAfter))? = again else { return }
        #expect((Duration.seconds(3000)...(.seconds(3600))).contains(retryAfter))
    }

    @Test("A sequence that nothing can follow wins no free try", arguments: [1, 2, 16, 17] as [UInt64])
    func lastSequence(below end: UInt64) throws {
        let bag = try TestKeybag()
        try bag.guessWrongly(times: 3)
        try bag.rewriteAttempts { $0.sequence = (1 << 62) - end }
        for (guess, failures, retryAfter) in [("another", 4, 0), ("yet another", 5, 60)] {
            let error = expectError("wrongPasscode") { try bag.unlock(guess) }
            #expect(
                error
                    == .because(
                        KeybagFailure.wrongPasscode(
                            keybag: bag.directory, failures: failures, retryAfter: .seconds(retryAfter))))
        }
        expectError("throttled") { try bag.unlock() }
        #expect(try bag.attemptSectors().compactMap { $0?.sequence }.allSatisfy { $0 < 10 })
    }

    @Test("After a boot it does not either")
    func lastSequenceAfterABoot() throws {
        let bag = try TestKeybag()
        try bag.guessWrongly(times: 5)
        try bag.rewriteAttempts { record in
            record.sequence = (1 << 62) - 1
            record.bootID[0] ^= 1
        }
        let error = expectError("throttled") { try bag.unlock() }
        #expect(error == .because(KeybagFailure.throttled(keybag: bag.directory, retryAfter: .seconds(60))))
        #expect(try bag.attempts()?.failures == 5)
    }

    @Test("Damage while the right passcode is checked does not outlive it")
    func damagedMeanwhile() throws {
        let bag = try TestKeybag()
        _ = try bag.keybag.attempts.begin()
        try Damage.zeroed.apply(to: bag)
        try bag.keybag.attempts.succeeded()
        #expect(try bag.attemptSectors().map { $0?.failures } == [0, 0])
    }

    @Test("An attempt that cannot be recorded is not made", arguments: Obstacle.allCases)
    func notRecorded(obstacle: Obstacle) throws {
        let bag = try TestKeybag()
        try obstacle.apply(to: bag)
        for passcode in [TestKeybag.passcode, "wrong"] {
            let error = expectError("attemptsNotRecorded") { try bag.unlock(passcode) }
            #expect(error == .because(KeybagFailure.attemptsNotRecorded(bag.file("attempts"), obstacle.errno)))
        }
        #expect(bag.ringContents == [])
        #expect(try bag.keybag.status().retryAfter == nil)
    }

    @Test("An attempt waits until another process has counted its own")
    func inTurn() async throws {
        let bag = try TestKeybag()
        let before = try bag.file("attempts").contents()
        let holder = try LowerFile(bag.file("attempts"), flags: O_RDWR)
        #expect(flock(holder.descriptor, LOCK_EX) == 0)
        let attempt = Task.detached { expectError("wrongPasscode") { try bag.unlock("wrong") } }
        try await Task.sleep(for: .milliseconds(300))  // a hundred times what it takes
        #expect(try bag.file("attempts").contents() == before)
        #expect(flock(holder.descriptor, LOCK_UN) == 0)
        _ = await attempt.value
        #expect(try bag.attempts()?.failures == 1)
    }

    @Test("Many at the same time are all counted")
    func concurrently() async throws {
        let bag = try TestKeybag()
        let answers = await withTaskGroup(of: String.self) { group in
            for number in 0..<12 {
                group.addTask {
                    let error = #expect(throws: DataProtectionError.self) { try bag.unlock("wrong \(number)") }
                    return error?.caseName ?? ""
                }
            }
            return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        }
        // Those that began before the 5th was recorded are wrong, all others come too early.
        #expect(answers["wrongPasscode", default: 0] + answers["throttled", default: 0] == 12)
        #expect(answers["wrongPasscode", default: 0] == 5)
        #expect(try bag.attempts()?.failures == 5)
    }

    /// What can happen to the file.
    enum Damage: String, CaseIterable {
        case missing, empty, short, zeroed, bothChecks, otherKeybag

        func apply(to bag: TestKeybag) throws {
            let path = bag.file("attempts")
            switch self {
            case .missing: try path.remove()
            case .empty: try path.overwrite([])
            case .short: try path.overwrite(Array(try path.contents().prefix(511)))
            case .zeroed: try path.overwrite([UInt8](repeating: 0, count: 1024))
            case .bothChecks:
                var bytes = try path.contents()
                bytes[511] ^= 1
                bytes[1023] ^= 1
                try path.overwrite(bytes)
            case .otherKeybag:
                let other = try TestKeybag()
                try path.overwrite(try other.file("attempts").contents())
            }
        }
    }

    /// What can stand in the file's place.
    enum Obstacle: String, CaseIterable {
        case directory, symbolicLink, danglingLink, fifo

        func apply(to bag: TestKeybag) throws {
            let path = bag.file("attempts")
            switch self {
            case .directory: try path.replaceByDirectory()
            case .symbolicLink:
                let elsewhere = bag.scratchPath.appending("elsewhere")
                try elsewhere.overwrite(try path.contents())
                try path.remove()
                try path.makeSymbolicLink(to: elsewhere)
            case .danglingLink:
                try path.remove()
                try path.makeSymbolicLink(to: "nowhere")
            case .fifo:
                try path.remove()
                try path.makeFIFO()
            }
        }

        var errno: Errno {
            switch self {
            case .directory: .isDirectory
            case .symbolicLink, .danglingLink: .tooManySymbolicLinkLevels
            case .fifo: .illegalSeek
            }
        }
    }
}
