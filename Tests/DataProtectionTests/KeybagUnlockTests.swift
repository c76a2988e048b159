import KernelKeyring
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

@Suite("Unlocking and locking")
struct KeybagUnlockTests {
    @Test("Goes from before first unlock to unlocked to locked and back")
    func states() throws {
        let bag = try TestKeybag()
        #expect(try bag.keybag.state() == .beforeFirstUnlock)
        try bag.unlock()
        #expect(try bag.keybag.state() == .unlocked)
        #expect(bag.keybag.isProtectedDataAvailable)
        #expect(bag.ringContents == [1, 2])
        try bag.keybag.lock()
        #expect(try bag.keybag.state() == .locked)
        #expect(!bag.keybag.isProtectedDataAvailable)
        #expect(bag.ringContents == [2])
        try bag.unlock()
        #expect(try bag.keybag.state() == .unlocked)
        try bag.keybag.evictEverything()
        #expect(try bag.keybag.state() == .beforeFirstUnlock)
        #expect(bag.ringContents == [])
        #expect(bag.warnings.unusual == [])
    }

    @Test("Is the same for everyone who opened the keybag, before or after")
    func sharedState() throws {
        let bag = try TestKeybag()
        let early = try bag.reopened()
        try early.unlock(passcode: secret(TestKeybag.passcode))
        #expect(try bag.keybag.state() == .unlocked)
        #expect(try bag.reopened().state() == .unlocked)
        try bag.keybag.lock()
        #expect(try early.state() == .locked)
        #expect(try bag.reopened().state() == .locked)
    }

    @Test("Locking twice is as good as once; before first unlock it does nothing")
    func idempotent() throws {
        let bag = try TestKeybag()
        try bag.keybag.lock()
        #expect(try bag.keybag.state() == .beforeFirstUnlock)
        try bag.unlock()
        try bag.keybag.lock()
        try bag.keybag.lock()
        #expect(try bag.keybag.state() == .locked)
    }

    @Test("Unlocking twice is as good as once, and changes no key")
    func twice() throws {
        let bag = try TestKeybag(state: .unlocked)
        let keys = try Set(ProtectionClass.allCases.map { try #require(try bag.keyID($0)) })
        try bag.unlock()
        #expect(try Set(ProtectionClass.allCases.map { try #require(try bag.keyID($0)) }) == keys)
        #expect(try bag.keybag.state() == .unlocked)
    }

    @Test(
        "Class keys are lent as the table of states says",
        arguments: [
            (ProtectionState.beforeFirstUnlock, [ProtectionClass.none]),
            (.unlocked, [.complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication, .none]),
            (.locked, [.completeUntilFirstUserAuthentication, .none]),
        ])
    func classKeys(state: ProtectionState, open: [ProtectionClass]) throws {
        let bag = try TestKeybag(state: state)
        #expect(try bag.keybag.state() == state)
        let entries = try KeybagCopy(decoding: try bag.file("keybag.0").contents()).entries
        for protectionClass in ProtectionClass.allCases {
            let id = try bag.keyID(protectionClass)
            let entry = try #require(entries.first { $0.rawClass == protectionClass.rawValue })
            #expect(id == (open.contains(protectionClass) ? entry.id : nil), "\(protectionClass)")
        }
        #expect(try bag.keybag.status().openClasses == open)
    }

    @Test("A key of another class or generation is not what the ring holds")
    func otherNames() throws {
        let bag = try TestKeybag(state: .unlocked)
        for protectionClass in ProtectionClass.allCases {
            let name = ClassKeyName(keybag: bag.keybag.uuid, protectionClass: protectionClass, generation: 2)
            #expect(try bag.keyID(name) == nil)
        }
    }

    @Test("A wrong passcode loads nothing and takes nothing away")
    func wrongPasscode() throws {
        let bag = try TestKeybag()
        let error = expectError("wrongPasscode") { try bag.unlock("another passcode") }
        #expect(
            error == .because(KeybagFailure.wrongPasscode(keybag: bag.directory, failures: 1, retryAfter: .seconds(0))))
        #expect(bag.ringContents == [])
        try bag.unlock()
        expectError("wrongPasscode") { try bag.unlock("another passcode") }
        #expect(try bag.keybag.state() == .unlocked)
        try bag.keybag.lock()
        expectError("wrongPasscode") { try bag.unlock("another passcode") }
        #expect(try bag.keybag.state() == .locked)
    }

    @Test("Loads all or none: when A and B cannot be loaded, C is not left behind")
    func allOrNone() throws {
        let bag = try TestKeybag()
        // A key that nobody may touch stands where A and B would be.
        let obstacle = try bag.plant(.unlocked, [1, 2, 3], permissions: 0)
        defer { try? RingWriter.run { () throws(Errno) in try KeySerial.userKeyring.unlink(obstacle) } }
        let error = expectError("keyringUnavailable") { try bag.unlock() }
        #expect(error == .because(KeybagFailure.keyringUnavailable(.permissionDenied)))
        #expect(bag.ringContents == [])
        #expect(try bag.keybag.state() == .beforeFirstUnlock)
        // And a lock does not say that all is well either.
        expectError("lockIncomplete") { try bag.keybag.lock() }
    }

    @Test("When A and B cannot be loaded, a C that was there stays")
    func allOrNoneWhileLocked() throws {
        let bag = try TestKeybag(state: .locked)
        let obstacle = try bag.plant(.unlocked, [1, 2, 3], permissions: 0)
        defer { try? RingWriter.run { () throws(Errno) in try KeySerial.userKeyring.unlink(obstacle) } }
        expectError("keyringUnavailable") { try bag.unlock() }
        #expect(try bag.keybag.state() == .locked)
        #expect(try bag.keyID(.completeUntilFirstUserAuthentication) != nil)
    }

    @Test("Keys left by a killed unlock are made whole by the next one, and cleared by a lock")
    func halfMade() throws {
        let bag = try TestKeybag()
        // Between add_key(2) and its permissions, and between C and A: what a kill leaves.
        try bag.plant(.firstUnlock, [1], permissions: nil)
        try bag.unlock()
        #expect(try bag.keybag.state() == .unlocked)
        try bag.keybag.evictEverything()
        try bag.plant(.unlocked, [1], permissions: nil)
        #expect(try bag.keybag.state() == .beforeFirstUnlock)
        try bag.keybag.lock()
        #expect(bag.ringContents == [])
    }

    @Test("Says in its status since when, and what opens")
    func status() throws {
        let bag = try TestKeybag()
        let before = try bag.keybag.status()
        #expect(before.state == .beforeFirstUnlock)
        #expect(before.unlockedSince == nil && before.firstUnlockSince == nil && before.lastTransition == nil)
        #expect(before.retryAfter == .zero)

        let start = Clock.now()
        try bag.unlock()
        let unlocked = try bag.keybag.status()
        #expect(unlocked.state == .unlocked)
        #expect((start...Clock.now()).contains(try #require(unlocked.unlockedSeconds)))
        #expect(unlocked.firstUnlockSince == unlocked.unlockedSince)
        #expect((start...Clock.now()).contains(try #require(unlocked.lastTransitionSeconds)))
        #expect(unlocked.secondsUntilLock == nil)

        try bag.keybag.lock()
        let locked = try bag.keybag.status()
        #expect(locked.state == .locked)
        #expect(locked.unlockedSince == nil)
        #expect(locked.firstUnlockSince == unlocked.firstUnlockSince)
    }

    @Test("The error for a key that is not there says class, operation, state and since when")
    func lockedError() throws {
        let bag = try TestKeybag(state: .locked)
        let since = try #require(try bag.keybag.status().lastTransition)
        let error = DataProtectionError.locked(bag.keybag, "/a/file", .complete, .read)
        #expect(
            error == .because(KeybagFailure.locked(path: "/a/file", .complete, .read, state: .locked, since: since)))
        #expect(error.errno == .requiredKeyNotAvailable)
    }
}
