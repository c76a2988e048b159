import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

@Suite("Counting wrong passcodes")
struct KeybagAttemptTests {
    @Test("Counts each wrong one, with its tag")
    func counts() throws {
        let bag = try TestKeybag()
        for failures in 1...4 {
            let error = expectError("wrongPasscode") { try bag.unlock("wrong \(failures)") }
            #expect(
                error
                    == .because(
                        KeybagFailure.wrongPasscode(keybag: bag.directory, failures: failures, retryAfter: .seconds(0)))
            )
            #expect(try bag.attempts()?.failures == UInt32(failures))
            #expect(try bag.attempts()?.guessTag == bag.tag(of: "wrong \(failures)"))
        }
    }

    @Test("Counts the same wrong one twice in a row once; another one in between makes it count again")
    func sameGuess() throws {
        let bag = try TestKeybag()
        for (guess, failures) in [("a", 1), ("a", 1), ("a", 1), ("b", 2), ("a", 3), ("a", 3)] {
            let error = expectError("wrongPasscode") { try bag.unlock(guess) }
            #expect(
                error
                    == .because(
                        KeybagFailure.wrongPasscode(keybag: bag.directory, failures: failures, retryAfter: .seconds(0)))
            )
        }
    }

    @Test("Counts for everyone who opened the keybag")
    func shared() throws {
        let bag = try TestKeybag()
        try bag.guessWrongly(times: 2)
        let error = expectError("wrongPasscode") { try bag.reopened().unlock(passcode: secret("third")) }
        #expect(
            error == .because(KeybagFailure.wrongPasscode(keybag: bag.directory, failures: 3, retryAfter: .seconds(0))))
    }

    @Test("Counts before it derives: an attempt that never ended counts")
    func countsBefore() throws {
        let bag = try TestKeybag()
        for _ in 0..<3 { _ = try bag.keybag.attempts.begin() }
        #expect(try bag.attempts()?.failures == 3)
        let error = expectError("wrongPasscode") { try bag.unlock("wrong") }
        #expect(
            error == .because(KeybagFailure.wrongPasscode(keybag: bag.directory, failures: 4, retryAfter: .seconds(0))))
    }

    @Test("The 5th starts a delay; passcodes tried during it are refused and not counted, even the right one")
    func throttled() throws {
        let bag = try TestKeybag()
        try bag.guessWrongly(times: 4)
        let fifth = expectError("wrongPasscode") { try bag.unlock("fifth") }
        #expect(
            fifth == .because(KeybagFailure.wrongPasscode(keybag: bag.directory, failures: 5, retryAfter: .seconds(60)))
        )
        let before = try bag.file("attempts").contents()
        for guess in ["sixth", "fifth", TestKeybag.passcode] {
            let error = expectError("throttled") { try bag.unlock(guess) }
            guard case .because(KeybagFailure.throttled(let directory, let retryAfter))? = error else { continue }
            #expect(directory == bag.directory)
            #expect((Duration.seconds(1)...(.seconds(60))).contains(retryAfter))
        }
        #expect(try bag.file("attempts").contents() == before)
        #expect(bag.ringContents == [])
        #expect((Duration.seconds(1)...(.seconds(60))).contains(try #require(try bag.keybag.status().retryAfter)))
    }

    @Test(
        "Each delay is the next one of the table",
        .enabled(if: Clock.bootTime() > 1_300_000_000_000, "the machine has been up for less than 22 minutes"))
    func longerDelays() throws {
        let bag = try TestKeybag()
        try bag.guessWrongly(times: 5)
        for (passed, failures, next) in [(60, 6, 300), (300, 7, 900), (900, 8, 3600)] as [(UInt64, Int, Int)] {
            try bag.letDelayPass(seconds: passed - 20)
            expectError("throttled") { try bag.unlock("too early") }
            try bag.letDelayPass(seconds: 20)
            let error = expectError("wrongPasscode") { try bag.unlock("wrong, number \(failures)") }
            #expect(
                error
                    == .because(
                        KeybagFailure.wrongPasscode(
                            keybag: bag.directory, failures: failures, retryAfter: .seconds(next))))
        }
    }

    @Test(
        "After the delay the same wrong one still counts once, and starts the same delay again",
        .enabled(if: Clock.bootTime() > 70_000_000_000, "the machine has been up for less than 70 seconds"))
    func sameGuessAfterDelay() throws {
        let bag = try TestKeybag()
        try bag.guessWrongly(times: 5)
        try bag.letDelayPass(seconds: 60)
        let error = expectError("wrongPasscode") { try bag.unlock("wrong 4") }
        #expect(
            error == .because(KeybagFailure.wrongPasscode(keybag: bag.directory, failures: 5, retryAfter: .seconds(60)))
        )
        expectError("throttled") { try bag.unlock("wrong 4") }
    }

    @Test(
        "After the delay the right passcode opens",
        .enabled(if: Clock.bootTime() > 70_000_000_000, "the machine has been up for less than 70 seconds"))
    func rightAfterDelay() throws {
        let bag = try TestKeybag()
        try bag.guessWrongly(times: 5)
        try bag.letDelayPass(seconds: 60)
        try bag.unlock()
        #expect(try bag.keybag.state() == .unlocked)
    }

    @Test("Another boot starts the delay over", arguments: [0, UInt64.max])
    func otherBoot(bootTime: UInt64) throws {
        let bag = try TestKeybag()
        try bag.guessWrongly(times: 5)
        try bag.rewriteAttempts { record in
            record.bootID = [UInt8](repeating: 9, count: 16)
            record.bootTime = bootTime
        }
        let error = expectError("throttled") { try bag.unlock() }
        #expect(error == .because(KeybagFailure.throttled(keybag: bag.directory, retryAfter: .seconds(60))))
        let record = try #require(try bag.attempts())
        #expect(record.bootID == Clock.bootID())
        #expect(record.failures == 5)
        #expect(record.bootTime <= Clock.bootTime())
    }

    @Test("A record of another boot keeps its count, and its tag where the keyring has the key")
    func otherBootKeeps() throws {
        let bag = try TestKeybag()
        try bag.guessWrongly(times: 3)
        try bag.rewriteAttempts { $0.bootID = [UInt8](repeating: 9, count: 16) }
        let same = expectError("wrongPasscode") { try bag.unlock("wrong 2") }
        #expect(
            same == .because(KeybagFailure.wrongPasscode(keybag: bag.directory, failures: 3, retryAfter: .seconds(0))))
    }

    @Test("A time in the future counts as now")
    func future() throws {
        let bag = try TestKeybag()
        try bag.guessWrongly(times: 5)
        try bag.rewriteAttempts { $0.bootTime = .max - 5 }
        let error = expectError("throttled") { try bag.unlock() }
        #expect(error == .because(KeybagFailure.throttled(keybag: bag.directory, retryAfter: .seconds(60))))
    }

    @Test("The count stays at its maximum")
    func saturates() throws {
        let bag = try TestKeybag()
        try bag.rewriteAttempts { record in
            record.failures = .max
            record.bootTime = 0
        }
        guard Clock.bootTime() > 3_601_000_000_000 else {
            expectError("throttled") { try bag.unlock("wrong") }
            return
        }
        expectError("wrongPasscode") { try bag.unlock("wrong") }
        #expect(try bag.attempts()?.failures == .max)
    }
}
