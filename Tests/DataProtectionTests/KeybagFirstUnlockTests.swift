import ProtectionFormat
import ProtectionKeys
import Testing

@testable import DataProtection

@Suite("Unlocking only what opens after the first unlock")
struct KeybagFirstUnlockTests {
    private func unlockOnly(_ bag: TestKeybag, _ passcode: String = TestKeybag.passcode) throws {
        try bag.keybag.unlockOnlyFirstUnlock(passcode: secret(passcode))
    }

    @Test("Is as after an unlock and a lock: class C opens, A and B are not in the ring", arguments: [true, false])
    func states(isFirst: Bool) throws {
        let bag = try TestKeybag(state: isFirst ? .beforeFirstUnlock : .locked)
        let start = Clock.now()
        try unlockOnly(bag)
        #expect(try bag.keybag.state() == .locked)
        #expect(bag.ringContents == [2])
        let status = try bag.keybag.status()
        #expect(status.openClasses == [.completeUntilFirstUserAuthentication, .none])
        #expect(status.unlockedSince == nil)
        #expect((start...Clock.now()).contains(try #require(status.firstUnlockSeconds)))
        #expect(status.lastTransition != nil)
        try bag.unlock()
        #expect(try bag.keybag.state() == .unlocked)
    }

    @Test("A and B private, and A of secrets, stay wrapped in this process too")
    func wrapped() throws {
        let bag = try TestKeybag()
        let keys = try bag.openedKeys(.onlyFirstUnlock)
        #expect(keys.unlocked.count == RingPayload.length(count: 0))
        #expect(keys.firstUnlock.count == RingPayload.length(count: 3), "C of files and of secrets, and the id of D")
    }

    @Test("An unlocked keybag stays unlocked, with its armed lock and the end of a limited unlock")
    func whileUnlocked() throws {
        let bag = try TestKeybag()
        try bag.unlock(forSeconds: 5000)
        let limited = bag.timeoutColumn(.unlocked)
        try unlockOnly(bag)
        #expect(try bag.keybag.state() == .unlocked)
        #expect(limited != "perm" && bag.timeoutColumn(.unlocked) != "perm")
        #expect(try bag.keybag.status().secondsUntilLock != nil)
        let armed = try #require(try bag.keybag.armLock(seconds: 1000))
        try unlockOnly(bag)
        #expect(bag.keybag.isStanding(armed))
        #expect(try bag.keybag.finishLock(armed))
        #expect(try bag.keybag.state() == .locked)
    }

    @Test("Keys that a rotation has replaced meanwhile are opened again; the keybag is not called an older copy")
    func rotationMeanwhile() throws {
        let bag = try TestKeybag(state: .unlocked)
        let keys = try bag.openedKeys(.onlyFirstUnlock)
        let counter = bag.keybag.transition.read().counter
        try bag.rotate()
        #expect(try !bag.keybag.load(keys, seconds: nil, ifCounterIs: counter))
        try unlockOnly(bag)
        #expect(try bag.keybag.state() == .unlocked)
    }

    @Test("A wrong passcode loads nothing, and counts")
    func wrongPasscode() throws {
        let bag = try TestKeybag()
        let error = expectError("wrongPasscode") { try unlockOnly(bag, "another passcode") }
        #expect(
            error == .because(KeybagFailure.wrongPasscode(keybag: bag.directory, failures: 1, retryAfter: .seconds(0))))
        #expect(bag.ringContents == [])
    }

    @Test(
        "A lock made meanwhile wins, and leaves the keys that were there",
        arguments: [ProtectionState.beforeFirstUnlock, .locked])
    func lockMeanwhile(state: ProtectionState) throws {
        let bag = try TestKeybag(state: state)
        let counter = try bag.keybag.transition.readStrictly().counter
        let keys = try bag.openedKeys(.onlyFirstUnlock)
        try bag.keybag.lock()
        expectError("lockedMeanwhile") { _ = try bag.keybag.load(keys, seconds: nil, ifCounterIs: counter) }
        #expect(bag.ringContents == (state == .beforeFirstUnlock ? [] : [2]))
    }
}
