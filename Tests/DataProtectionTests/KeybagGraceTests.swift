import KernelKeyring
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

@Suite("A lock that is armed")
struct KeybagGraceTests {
    @Test("Leaves everything open until it is due, and then locks")
    func armAndFinish() throws {
        let bag = try TestKeybag(state: .unlocked)
        let armed = try #require(try bag.keybag.armLock(seconds: 100))
        #expect(try bag.keybag.state() == .unlocked)
        #expect((0...100).contains(armed.secondsLeft))
        let left = try #require(try bag.keybag.status().secondsUntilLock)
        #expect((0...100).contains(left))
        #expect(try bag.keybag.finishLock(armed))
        #expect(try bag.keybag.state() == .locked)
        #expect(try bag.keybag.status().secondsUntilLock == nil)
        #expect(try !bag.keybag.finishLock(armed), "done already")
    }

    @Test("Arms the kernel's own timeout too")
    func kernelTimeout() throws {
        let bag = try TestKeybag(state: .unlocked)
        #expect(bag.timeoutColumn(.unlocked) == "perm")
        _ = try bag.keybag.armLock(seconds: 1000)
        let column = try #require(bag.timeoutColumn(.unlocked))
        #expect(column != "perm" && column != "expd")
        #expect(bag.timeoutColumn(.firstUnlock) == "perm")
    }

    @Test("Is nothing when there is nothing to lock", arguments: [ProtectionState.beforeFirstUnlock, .locked])
    func nothingToLock(state: ProtectionState) throws {
        let bag = try TestKeybag(state: state)
        #expect(try bag.keybag.armLock(seconds: 5) == nil)
        #expect(try bag.keybag.state() == state)
        #expect(try !bag.keybag.cancelArmedLock())
    }

    @Test("Is done by the kernel when whoever armed it has died")
    func deadMansSwitch() async throws {
        let bag = try TestKeybag(state: .unlocked)
        let armed = try #require(try bag.keybag.armLock(seconds: 0))
        try bag.waitUntilExpired(.unlocked)
        #expect(try bag.keybag.state() == .locked)
        #expect(try bag.keybag.status().secondsUntilLock == nil)
        #expect(try !bag.keybag.cancelArmedLock(), "the keys have gone")
        #expect(armed.secondsLeft == 0)
        try bag.unlock()
        #expect(try bag.keybag.state() == .unlocked)
        #expect(bag.timeoutColumn(.unlocked) == "perm")
    }

    @Test("Keys whose time is over by CLOCK_BOOTTIME go, whatever the kernel's timeout says", arguments: [false, true])
    func clockSetBack(isLimited: Bool) throws {
        let bag = try TestKeybag(state: .unlocked)
        if isLimited { try bag.unlock(forSeconds: 1000) } else { _ = try bag.keybag.armLock(seconds: 1000) }
        for (seconds, contents) in [(1, [1, 2]), (3, [2])] as [(UInt64, Set<Int>)] {
            try bag.keybag.transition.exclusively { record in
                let end = Clock.bootTime() - seconds * 1_000_000_000
                if isLimited { record.limit = end } else { record.deadline = end }
            }
            #expect(try bag.keybag.state() == .unlocked)
            _ = try bag.reopened()
            #expect(bag.ringContents == contents, "\(seconds) s over: the kernel has two to be first")
        }
    }

    @Test("Locks at once where the kernel refuses the timeout; a key that does not go either is an error")
    func permissionsTakenAway() throws {
        let bag = try TestKeybag(state: .unlocked)
        let serial = try bag.keybag.ring.unlocked.find()
        // Without the right to set attributes, for the possessor and for the user.
        try RingWriter.run { () throws(Errno) in try serial.setPermissions(0x1F0B_0000) }
        #expect(try bag.keybag.armLock(seconds: 1000) == nil)
        #expect(bag.ringContents == [2])
        #expect(bag.keybag.transition.read().deadline == 0)
        #expect(bag.warnings.unusual == [.lockNotPutOff(bag.keybag.directory, .permissionDenied)])

        try bag.unlock()
        let untouchable = try bag.keybag.ring.unlocked.find()
        try RingWriter.run { () throws(Errno) in try untouchable.setPermissions(0) }
        defer { try? RingWriter.run { () throws(Errno) in try KeySerial.userKeyring.unlink(untouchable) } }
        // No search names it, and so nobody knows which link of the ring to take away.
        expectError("lockIncomplete") { _ = try bag.keybag.armLock(seconds: 1000) }
        #expect(bag.keybag.transition.read().deadline == 0)
        #expect(bag.warnings.unusual.count == 2)
    }

    @Test("Can be cancelled: kernel timeout and deadline go, and it does not lock any more")
    func cancel() throws {
        let bag = try TestKeybag(state: .unlocked)
        let armed = try #require(try bag.keybag.armLock(seconds: 1000))
        #expect(try bag.keybag.cancelArmedLock())
        #expect(bag.timeoutColumn(.unlocked) == "perm")
        #expect(try bag.keybag.status().secondsUntilLock == nil)
        #expect(try !bag.keybag.finishLock(armed))
        #expect(try bag.keybag.state() == .unlocked)
        #expect(try !bag.keybag.cancelArmedLock(), "nothing is armed any more")
    }

    @Test("Prolongs no limited unlock here, and tells its time, though a later one elsewhere has no limit")
    func limitOfThisRing() throws {
        let bag = try TestKeybag()
        try bag.unlock(forSeconds: 30)
        try bag.keybag.transition.exclusively { record in record.limit = 0 }
        #expect(try #require(try bag.keybag.status().secondsUntilLock) <= 30)
        let armed = try #require(try bag.keybag.armLock(seconds: 1000))
        #expect(bag.timeoutColumn(.unlocked)?.hasSuffix("s") == true)
        #expect(bag.keybag.secondsToExpiry(while: armed) <= 30 && armed.secondsLeft > 900)
        #expect(try #require(try bag.keybag.status().secondsUntilLock) <= 30)
        #expect(try bag.keybag.cancelArmedLock())
        #expect(bag.timeoutColumn(.unlocked)?.hasSuffix("s") == true)
    }

    @Test("Is ended by an unlock")
    func unlockInGrace() throws {
        let bag = try TestKeybag(state: .unlocked)
        let armed = try #require(try bag.keybag.armLock(seconds: 1000))
        try bag.unlock()
        #expect(bag.timeoutColumn(.unlocked) == "perm")
        #expect(try !bag.keybag.finishLock(armed))
        #expect(try bag.keybag.state() == .unlocked)
    }

    @Test("Is not ended by a wrong passcode")
    func wrongPasscodeInGrace() throws {
        let bag = try TestKeybag(state: .unlocked)
        let armed = try #require(try bag.keybag.armLock(seconds: 1000))
        expectError("wrongPasscode") { try bag.unlock("wrong") }
        #expect(bag.timeoutColumn(.unlocked) != "perm")
        #expect(try bag.keybag.finishLock(armed))
        #expect(try bag.keybag.state() == .locked)
    }

    @Test("Is overtaken by a lock, and does not lock what is unlocked afterwards")
    func lockInGrace() throws {
        let bag = try TestKeybag(state: .unlocked)
        let armed = try #require(try bag.keybag.armLock(seconds: 1000))
        try bag.keybag.lock()
        #expect(try bag.keybag.state() == .locked)
        #expect(bag.keybag.transition.read().deadline == 0)
        try bag.unlock()
        #expect(try !bag.keybag.finishLock(armed))
        #expect(try bag.keybag.state() == .unlocked)
    }

    @Test("Is replaced by one that is due earlier")
    func earlier() throws {
        let bag = try TestKeybag(state: .unlocked)
        let first = try #require(try bag.keybag.armLock(seconds: 1000))
        let second = try #require(try bag.keybag.armLock(seconds: 10))
        #expect(second.deadline < first.deadline)
        #expect(try !bag.keybag.finishLock(first))
        #expect(try bag.keybag.finishLock(second))
    }

    @Test("Is not put off by one that is due later")
    func later() throws {
        let bag = try TestKeybag(state: .unlocked)
        let first = try #require(try bag.keybag.armLock(seconds: 10))
        let second = try #require(try bag.keybag.armLock(seconds: 1000))
        #expect(second.deadline == first.deadline)
        #expect(try #require(try bag.keybag.status().secondsUntilLock) <= 10)
        #expect(try bag.keybag.finishLock(second))
        #expect(try bag.keybag.state() == .locked)
    }

    @Test("Stands when somebody else arms one that is due later, and is ended by nobody who armed another one")
    func ofSomebodyElse() throws {
        let bag = try TestKeybag(state: .unlocked)
        let first = try #require(try bag.keybag.armLock(seconds: 500))
        let same = try #require(try bag.keybag.armLock(seconds: 1000))
        #expect(bag.keybag.isStanding(first), "both wait for the same deadline")
        #expect(bag.keybag.isStanding(same))
        let earlier = try #require(try bag.keybag.armLock(seconds: 10))
        #expect(try !bag.keybag.cancelArmedLock(first))
        #expect(bag.keybag.isStanding(earlier))
        #expect(bag.timeoutColumn(.unlocked) != "perm")
        #expect(try bag.keybag.cancelArmedLock(earlier))
        #expect(bag.timeoutColumn(.unlocked) == "perm")
        #expect(try bag.keybag.state() == .unlocked)
    }

    @Test("Does not lengthen an unlock that was limited")
    func limitedUnlock() async throws {
        let bag = try TestKeybag()
        try bag.unlock(forSeconds: 1)
        _ = try bag.keybag.armLock(seconds: 1000)
        try bag.waitUntilExpired(.unlocked)
        #expect(try bag.keybag.state() == .locked)
    }

    @Test("Far away is possible", arguments: [UInt32.max, UInt32.max - 1])
    func farAway(seconds: UInt32) throws {
        let bag = try TestKeybag(state: .unlocked)
        let armed = try #require(try bag.keybag.armLock(seconds: seconds))
        #expect(armed.secondsLeft > 4_000_000_000)
        #expect(try bag.keybag.state() == .unlocked)
    }

    @Test("Of another boot is forgotten")
    func otherBoot() throws {
        let bag = try TestKeybag(state: .unlocked)
        _ = try bag.keybag.armLock(seconds: 1000)
        var record = bag.keybag.transition.read()
        record.bootID = [UInt8](repeating: 9, count: 16)
        try bag.file("transition").overwrite(record.encoded)
        #expect(try bag.keybag.status().secondsUntilLock == nil)
    }

    @Test("An unlock for some seconds ends by itself; C stays")
    func unlockFor() async throws {
        let bag = try TestKeybag()
        try bag.unlock(forSeconds: 1)
        try bag.waitUntilExpired(.unlocked)
        #expect(try bag.keybag.state() == .locked)
        #expect(bag.timeoutColumn(.firstUnlock) == "perm")
    }

    @Test("An unlock for 0 seconds is a short one, not an unlimited one")
    func unlockForZero() async throws {
        let bag = try TestKeybag()
        try bag.unlock(forSeconds: 0)
        try bag.waitUntilExpired(.unlocked)
        #expect(try bag.keybag.state() == .locked)
    }

    @Test("An unlock without limit ends the limit of the one before")
    func limitEnds() throws {
        let bag = try TestKeybag()
        try bag.unlock(forSeconds: 1000)
        #expect(bag.timeoutColumn(.unlocked) != "perm")
        #expect((900...1000).contains(try #require(try bag.keybag.status().secondsUntilLock)))
        try bag.unlock()
        #expect(bag.timeoutColumn(.unlocked) == "perm")
        #expect(try bag.keybag.status().secondsUntilLock == nil)
    }
}
