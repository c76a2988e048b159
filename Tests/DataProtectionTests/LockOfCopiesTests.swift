import Glibc
import KernelKeyring
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection
@testable import Keybags

/// FORMAT.md §2.5: copies of a keybag have one ring, and an unlock notes its directory there.
@Suite("A lock stops the unlocks of all copies of its keybag")
struct LockOfCopiesTests {
    /// A lock that is not told of the directory in which the unlock is under way.
    enum Lock: CaseIterable {
        case ofCopy, byName, armed, everything

        func run(_ copy: Keybag) throws {
            switch self {
            case .ofCopy: try copy.lock()
            case .byName: try Keybag.lock(copy.uuid)
            case .armed: _ = try copy.armLock(seconds: 1000)
            case .everything: try copy.evictEverything()
            }
        }
    }

    /// Another directory with the same keybag. The registry knows neither.
    private func copy(of bag: TestKeybag) throws -> Keybag {
        let place = bag.scratchPath.appending("copy")
        #expect(mkdir(place.string, 0o700) == 0)
        for name in ["keybag.0", "keybag.1", "transition", "attempts"] {
            try place.appending(name).overwrite(try bag.file(name).contents())
            try place.appending(name).setMode(0o600)
        }
        try bag.forget()
        return try Keybag(at: place, warn: bag.warnings.append)
    }

    @Test("An unlock that began before the lock loads nothing", arguments: Lock.allCases)
    func stops(lock: Lock) throws {
        let bag = try TestKeybag(state: .locked)
        let copy = try copy(of: bag)
        let note = try UnlockUnderWay(of: bag.keybag.uuid, in: bag.directory)
        defer { note.end() }
        let counter = try bag.keybag.transition.readStrictly().counter
        let keys = try bag.openedKeys()
        try lock.run(copy)
        expectError("lockedMeanwhile") {
            _ = try bag.keybag.load(keys, seconds: nil, ifCounterIs: counter, noted: note)
        }
        #expect(!bag.ringContents.contains(1))
        try bag.unlock()
        #expect(bag.ringContents == [1, 2], "one that begins afterwards does")
    }

    @Test("A lock beside an unlock of the copy that is stopped in its turn is not proven; it is when that has ended")
    func stoppedHolder() throws {
        let bag = try TestKeybag(state: .unlocked)
        let copy = try copy(of: bag)
        let note = try UnlockUnderWay(of: bag.keybag.uuid, in: bag.directory)
        defer { note.end() }
        let holder = try StormProcess(bag.directory, ["turns", "stay"])
        #expect(try holder.line() == "ready")
        let expected = DataProtectionError.because(
            KeybagFailure.lockUnproven(keybag: bag.directory, .held(processes: [holder.pid])))
        #expect(throws: expected) { try copy.lock() }
        #expect(bag.ringContents == [2])
        #expect(throws: expected) { try Keybag.lock(copy.uuid) }
        _ = try holder.kill(after: nil)
        try copy.lock()
    }

    @Test("A lock is not proven while the directory of an unlock cannot be looked at")
    func goneDirectory() throws {
        let bag = try TestKeybag(state: .unlocked)
        let place = bag.scratchPath.appending("away")
        let note = try UnlockUnderWay(of: bag.keybag.uuid, in: place)
        let expected = DataProtectionError.because(
            KeybagFailure.lockUnproven(keybag: place, .unwritable(.noSuchFileOrDirectory)))
        #expect(throws: expected) { try bag.keybag.lock() }
        #expect(bag.ringContents == [2])
        note.end()
        try bag.keybag.lock()
    }

    @Test("A lock that is armed prolongs no limited unlock of the other copy, nor does ending it")
    func armedKeepsLimit() throws {
        let bag = try TestKeybag(state: .unlocked)
        let copy = try copy(of: bag)
        try copy.unlock(passcode: secret(TestKeybag.passcode), forSeconds: 30)
        _ = try #require(try bag.keybag.armLock(seconds: 1000))
        #expect(bag.timeoutColumn(.unlocked)?.hasSuffix("s") == true)
        #expect(try bag.keybag.cancelArmedLock())
        #expect(bag.timeoutColumn(.unlocked)?.hasSuffix("s") == true)
    }

    @Test("An unlock that no lock can see any more loads nothing")
    func notNoted() throws {
        let bag = try TestKeybag(state: .locked)
        let note = try UnlockUnderWay(of: bag.keybag.uuid, in: bag.directory)
        let counter = try bag.keybag.transition.readStrictly().counter
        let keys = try bag.openedKeys()
        note.end()
        expectError("lockedMeanwhile") {
            _ = try bag.keybag.load(keys, seconds: nil, ifCounterIs: counter, noted: note)
        }
        #expect(bag.ringContents == [2])
    }

    @Test("A lock ends the note of an unlock: neither the same key put back nor another one of its name counts")
    func notePutBack() throws {
        let bag = try TestKeybag(state: .locked)
        let note = try UnlockUnderWay(of: bag.keybag.uuid, in: bag.directory)
        #expect(note.isNoted)
        let serial = try note.key.find()
        try RingWriter.run { () throws(Errno) in
            try KeySerial.threadKeyring.link(serial)
            do throws(DataProtectionError) { try bag.keybag.lock() } catch { Issue.record(error) }
            try? KeySerial.userKeyring.link(serial)
        }
        #expect(!note.isNoted)
        let path = bag.directory.bytes
        let forged = try RingWriter.run { () throws(Errno) in
            try path.withUnsafeBytes { path in Result { () throws(Errno) in try note.key.load(path) } }.get()
        }
        defer { try? KeySerial.userKeyring.unlink(forged) }
        #expect(try note.key.find() == forged && !note.isNoted)
    }

    @Test("An unlock leaves no note, whether it succeeds or not, and one of another keybag is left alone")
    func leavesNothing() throws {
        let (bag, other) = (try TestKeybag(), try TestKeybag())
        try bag.unlock()
        expectError("wrongPasscode") { try bag.unlock("wrong") }
        #expect(try !UnlockUnderWay.keybags().contains(bag.keybag.uuid))

        let note = try UnlockUnderWay(of: other.keybag.uuid, in: other.directory)
        defer { note.end() }
        #expect(try UnlockUnderWay.keybags().contains(other.keybag.uuid))
        let counter = try other.keybag.transition.readStrictly().counter
        try bag.keybag.lock()
        let loads = try other.keybag.load(try other.openedKeys(), seconds: nil, ifCounterIs: counter, noted: note)
        #expect(loads)
    }
}
