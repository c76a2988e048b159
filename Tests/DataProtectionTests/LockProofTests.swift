import Glibc
import ProtectionFormat
import SystemPackage
import Testing

@testable import DataProtection
@testable import Keybags

/// FORMAT.md §2.4: a lock that returns has stopped every unlock that began before it.
@Suite("A lock is proven, or fails")
struct LockProofTests {
    @Test("A lock beside an unlock that is stopped in its turn is not proven; it is when that has ended")
    func stoppedHolder() throws {
        let bag = try TestKeybag(state: .unlocked)
        let before = bag.keybag.transition.read().counter
        let holder = try StormProcess(bag.directory, ["turns", "stay"])
        #expect(try holder.line() == "ready")
        holder.stop()
        let expected = DataProtectionError.because(
            KeybagFailure.lockUnproven(keybag: bag.directory, .held(processes: [holder.pid])))
        for tries in 1...2 as ClosedRange<UInt64> {
            let error = expectError("lockUnproven") { try bag.keybag.lock() }
            #expect(error == expected)
            #expect(bag.ringContents == [2])
            #expect(bag.keybag.transition.read().counter == before + tries, "the holder sees it when it goes on")
        }
        #expect(throws: expected) { try Keybag.lock(bag.keybag.uuid) }
        #expect(throws: expected) { try bag.keybag.evictEverything() }
        #expect(bag.ringContents == [])
        #expect(expected.errno == .resourceBusy && expected.remedy == .tryAgain)

        _ = try holder.kill(after: nil)
        try bag.keybag.lock()
        try bag.unlock()
        #expect(bag.ringContents == [1, 2])
    }

    @Test("An unlock that goes on after such a lock loads nothing that stays")
    func stoppedUnlock() throws {
        let bag = try TestKeybag(state: .unlocked)
        let counter = try bag.keybag.transition.readStrictly().counter
        let keys = try bag.openedKeys()
        let holder = try StormProcess(bag.directory, ["turns", "stay"])
        #expect(try holder.line() == "ready")
        expectError("lockUnproven") { try bag.keybag.lock() }
        try holder.say("go on")
        #expect(try holder.line() == "done")
        expectError("lockedMeanwhile") { _ = try bag.keybag.load(keys, seconds: nil, ifCounterIs: counter) }
        #expect(bag.ringContents == [2])
    }

    @Test("A lock that is armed stands after one that is not proven")
    func armedBefore() throws {
        let bag = try TestKeybag(state: .unlocked)
        let armed = try #require(try bag.keybag.armLock(seconds: 1000))
        let holder = try StormProcess(bag.directory, ["turns", "stay"])
        #expect(try holder.line() == "ready")
        expectError("lockUnproven") { try bag.keybag.lock() }
        #expect(bag.keybag.isStanding(armed))
        try holder.say("go on")
        #expect(try holder.line() == "done")
        #expect(try bag.keybag.finishLock(armed))
    }

    @Test("A lock that is to be armed beside a stopped process locks at once")
    func armedBesideHolder() throws {
        let bag = try TestKeybag(state: .unlocked)
        let holder = try StormProcess(bag.directory, ["turns", "stay"])
        #expect(try holder.line() == "ready")
        expectError("lockUnproven") { _ = try bag.keybag.armLock(seconds: 1000) }
        #expect(bag.ringContents == [2])
        #expect(bag.warnings.unusual == [.lockNotPutOff(bag.directory, .resourceBusy)])
        // There is nothing to arm now, and still it is not certain that nothing comes.
        expectError("lockUnproven") { _ = try bag.keybag.armLock(seconds: 1000) }
        _ = try holder.kill(after: nil)
        #expect(try bag.keybag.armLock(seconds: 1000) == nil)
    }

    @Test("Erasing beside a stopped process destroys nothing")
    func erasingBesideHolder() throws {
        let bag = try TestKeybag(state: .unlocked)
        let before = try bag.directory.names()
        let holder = try StormProcess(bag.directory, ["turns", "stay"])
        #expect(try holder.line() == "ready")
        expectError("lockUnproven") { _ = try KeybagErasure(at: bag.directory).perform() }
        #expect(bag.ringContents == [])
        #expect(try bag.directory.names() == before)
        _ = try bag.keybag.file.load()
        _ = try holder.kill(after: nil)
        #expect(try KeybagErasure(at: bag.directory).perform() == [])
    }

    #if compiler(>=6.3)
        @Test("A lock that cannot raise the counter evicts the keys and is not proven")
        func unwritable() async {
            await #expect(processExitsWith: .success) {
                let bag = try TestKeybag(state: .unlocked)
                let counter = try bag.keybag.transition.readStrictly().counter
                withFiles(ofAtMost: 0) {
                    let expected = DataProtectionError.because(
                        KeybagFailure.lockUnproven(keybag: bag.directory, .unwritable(.fileTooLarge)))
                    #expect(throws: expected) { try bag.keybag.lock() }
                    #expect(bag.ringContents == [2])
                    #expect(throws: expected) { try Keybag.lock(bag.keybag.uuid) }
                    #expect(throws: expected) { try bag.keybag.evictEverything() }
                    #expect(bag.keybag.transition.read().counter == counter, "an unlock under way would go on")
                }
                try bag.keybag.lock()
                #expect(bag.keybag.transition.read().counter == counter + 1)
            }
        }

        @Test("A lock that cannot be written down is not put off")
        func unwritableArmed() async {
            await #expect(processExitsWith: .success) {
                let bag = try TestKeybag(state: .unlocked)
                withFiles(ofAtMost: 0) {
                    expectError("lockUnproven") { _ = try bag.keybag.armLock(seconds: 1000) }
                    #expect(bag.ringContents == [2])
                    #expect(bag.warnings.unusual == [.lockNotPutOff(bag.directory, .fileTooLarge)])
                }
            }
        }

        @Test("Where a damaged record cannot be made anew no unlock goes on either, and a lock is proven")
        func damagedAndUnwritable() async {
            await #expect(processExitsWith: .success) {
                let bag = try TestKeybag(state: .unlocked)
                let counter = try bag.keybag.transition.readStrictly().counter
                let keys = try bag.openedKeys()
                try bag.file("transition").overwrite([UInt8](repeating: 7, count: 64))
                try withFiles(ofAtMost: 0) {
                    try bag.keybag.lock()
                    #expect(throws: DataProtectionError.self) {
                        try bag.keybag.load(keys, seconds: nil, ifCounterIs: counter)
                    }
                    #expect(bag.ringContents == [2])
                }
                expectError("lockedMeanwhile") { _ = try bag.keybag.load(keys, seconds: nil, ifCounterIs: counter) }
                #expect(bag.ringContents == [2])
            }
        }

        @Test("A record whose mode lets nobody write is written by its owner", arguments: [0, 0o400] as [mode_t])
        func mode(mode: mode_t) async {
            await #expect(processExitsWith: .success) { [mode] in
                let home = try AnotherUser.become()
                let bag = try TestKeybag(state: .unlocked)
                let before = bag.keybag.transition.read().counter
                try bag.file("transition").setMode(mode)
                let armed = try bag.keybag.armLock(seconds: 1000)
                #expect(armed.map(bag.keybag.isStanding) == true)
                try bag.keybag.lock()
                #expect(bag.ringContents == [2])
                expectError("system") { try bag.unlock() }
                try bag.file("transition").setMode(0o600)
                #expect(bag.keybag.transition.read().counter == before + 2)
                try home.remove()
            }
        }

        @Test("A keybag's directory that cannot be looked into: the keys go, and it is not proven")
        func unreadableDirectory() async {
            await #expect(processExitsWith: .success) {
                let home = try AnotherUser.become()
                let bag = try TestKeybag(state: .unlocked)
                try bag.directory.setMode(0)
                let expected = DataProtectionError.because(
                    KeybagFailure.lockUnproven(keybag: bag.directory, .unwritable(.permissionDenied)))
                #expect(throws: expected) { try Keybag.lock(bag.keybag.uuid) }
                #expect(bag.ringContents == [2])
                try bag.scratchPath.setMode(0)
                #expect(throws: expected) { try Keybag.lock(bag.keybag.uuid) }
                try bag.scratchPath.setMode(0o700)
                try bag.directory.setMode(0o700)
                try Keybag.lock(bag.keybag.uuid)
                try home.remove()
            }
        }
    #endif

    @Test("An unlock of a directory that others may write to by now loads nothing; a lock raises the counter there")
    func unsafeDirectory() throws {
        let bag = try TestKeybag(state: .unlocked)
        let counter = try bag.keybag.transition.readStrictly().counter
        let keys = try bag.openedKeys()
        try bag.directory.setMode(0o777)
        try Keybag.lock(bag.keybag.uuid)
        #expect(bag.ringContents == [2])
        #expect(bag.keybag.transition.read().counter == counter + 1)
        expectError("keybagUnsafe") { _ = try bag.keybag.load(keys, seconds: nil, ifCounterIs: counter + 1) }
        #expect(bag.ringContents == [2])
        try bag.file("transition").remove()
        try Keybag.lock(bag.keybag.uuid)
        #expect(!OwnDirectory.exists(bag.file("transition")), "none is made where others may write")
        try bag.directory.setMode(0o700)
    }

    @Test("An unlock that waited for a record that was removed meanwhile takes its turn with a new one")
    func removedRecord() throws {
        let bag = try TestKeybag(state: .locked)
        let old = try LowerFile(bag.file("transition"), flags: O_RDWR)
        let holder = try StormProcess(bag.directory, ["turns", "stay"])
        #expect(try holder.line() == "ready")
        let unlock = try StormProcess(bag.directory, ["turns", "unlock", "1", TestKeybag.passcode])
        while !old.isWaitedFor(by: unlock.pid) { usleep(1_000) }
        // It waits for the flock of a file that no lock can find any more.
        try bag.file("transition").remove()
        try holder.say("go on")
        #expect(try holder.line() == "done")
        #expect(try unlock.line() == "0 1", "it met a lock")
        #expect(bag.keybag.transition.stored().map { $0.counter > 1 << 40 } == true, "a new record")
        #expect(bag.ringContents == [2])
    }

    @Test("A missing or damaged record begins anew, with a counter that nobody has seen, by a lock and by an unlock")
    func newRecord() throws {
        let bag = try TestKeybag()
        var counters = [bag.keybag.transition.read().counter]
        for obstacle in KeybagLockTests.Obstacle.allCases where obstacle.isRepairable {
            let deeds: [() throws -> Void] = [{ try bag.keybag.lock() }, { try bag.unlock() }]
            for deed in deeds {
                try obstacle.apply(to: bag)
                try deed()
                let counter = bag.keybag.transition.read().counter
                #expect(!counters.contains(counter))
                #expect(counter >> 31 >= counters.last! >> 31, "clients compare")
                counters.append(counter)
            }
        }
        #expect(counters.count == 9 && counters[1] >> 31 <= Clock.now() && counters[1] >> 31 > Clock.now() - 600)
    }

    @Test(
        "An unlock that began before the record was damaged loads nothing", arguments: KeybagLockTests.Obstacle.allCases
    )
    func damagedMeanwhile(obstacle: KeybagLockTests.Obstacle) throws {
        let bag = try TestKeybag()
        let counter = try bag.keybag.transition.readStrictly().counter
        #expect(counter == 0, "what a damaged record said too, once")
        let keys = try bag.openedKeys()
        try obstacle.apply(to: bag)
        #expect(throws: DataProtectionError.self) { try bag.keybag.load(keys, seconds: nil, ifCounterIs: counter) }
        #expect(bag.ringContents == [])
    }

    @Test(
        "A lock that is armed stands while its record is damaged or missing: nobody has unlocked",
        arguments: [true, false])
    func armedAndDamaged(isMissing: Bool) throws {
        let bag = try TestKeybag(state: .unlocked)
        let armed = try #require(try bag.keybag.armLock(seconds: 1000))
        if isMissing { try bag.file("transition").remove() } else { try bag.file("transition").overwrite([1]) }
        #expect(bag.keybag.isStanding(armed))
        #expect(try bag.keybag.finishLock(armed))
        #expect(bag.ringContents == [2])
        #expect(!bag.keybag.isStanding(armed))
    }
}

extension LowerFile {
    /// Whether a process waits for flock(2) of the file.
    fileprivate func isWaitedFor(by process: pid_t) -> Bool {
        guard let status = try? status(), let text = try? LowerFile("/proc/locks", flags: O_RDONLY).text() else {
            return false
        }
        return text.split(separator: "\n").contains { line in
            line.contains(" -> FLOCK ") && line.contains(" \(process) ") && line.contains(":\(status.st_ino) ")
        }
    }
}
