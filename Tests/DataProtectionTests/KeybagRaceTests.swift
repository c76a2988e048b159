import Foundation
import KernelKeyring
import KeyQuota
import ProtectionFormat
import ProtectionKeys
import Synchronization
import SystemPackage
import Testing

@testable import DataProtection

@Suite("A lock wins over an unlock begun before it")
struct KeybagRaceTests {
    @Test("Between the passcode and the ring", arguments: [ProtectionState.beforeFirstUnlock, .unlocked, .locked])
    func lockMeanwhile(state: ProtectionState) throws {
        let bag = try TestKeybag(state: state)
        let counter = try bag.keybag.transition.readStrictly().counter
        let keys = try bag.openedKeys()
        try bag.keybag.lock()
        let error = #expect(throws: DataProtectionError.self) {
            try bag.keybag.load(keys, seconds: nil, ifCounterIs: counter)
        }
        #expect(error == .because(KeybagFailure.lockedMeanwhile(keybag: bag.directory)))
        #expect(error?.errno == .requiredKeyNotAvailable)
        #expect(bag.ringContents == (state == .beforeFirstUnlock ? [] : [2]))

        try bag.unlock()
        #expect(try bag.keybag.state() == .unlocked)
    }

    @Test("A reader finds whole keys each time while a keybag is unlocked over and over")
    func unlockedAgain() throws {
        let bag = try TestKeybag(state: .unlocked)
        let counter = try bag.keybag.transition.readStrictly().counter
        let keys = try bag.openedKeys()
        let reader = ReaderOfRing(bag.keybag)
        for _ in 0..<300 { _ = try bag.keybag.load(keys, seconds: 1000, ifCounterIs: counter) }
        #expect(try reader.misses() == 0)
    }

    /// Reads the payloads over and over, each time as somebody who never did before.
    private final class ReaderOfRing: @unchecked Sendable {  // written by one thread, read after it has ended
        private let isDone = Atomic(false)
        private var result = Result<Int, any Error>.success(0)
        private let end = DispatchSemaphore(value: 0)

        init(_ keybag: Keybag) {
            Thread.detachNewThread { [self] in
                result = Result {
                    var misses = 0
                    while !isDone.load(ordering: .relaxed) {
                        for key in [keybag.ring.unlocked, keybag.ring.firstUnlock] {
                            var serial: KeySerial?
                            if try RingKeys.payload(of: key, serial: &serial) == nil { misses += 1 }
                        }
                    }
                    return misses
                }
                end.signal()
            }
        }

        func misses() throws -> Int {
            isDone.store(true, ordering: .relaxed)
            end.wait()
            return try result.get()
        }
    }

    @Test("A remnant is not looked for while somebody loads keys: it could be them that are taken away")
    func noRemnant() throws {
        let bag = try TestKeybag(state: .unlocked)
        try bag.setTimeout(.unlocked, seconds: 1)
        try bag.waitUntilExpired(.unlocked)
        try bag.keybag.transition.exclusively { _ throws(DataProtectionError) in
            bag.keybag.ring.clearExpired(in: bag.directory)
        }
        #expect(bag.absence(.unlocked) == .keyExpired)
        bag.keybag.ring.clearExpired(in: bag.directory)
        #expect(bag.absence(.unlocked) == .requiredKeyNotAvailable)
    }

    @Test("Also a lock that is only armed")
    func armedMeanwhile() throws {
        let bag = try TestKeybag(state: .unlocked)
        let counter = try bag.keybag.transition.readStrictly().counter
        let keys = try bag.openedKeys()
        _ = try bag.keybag.armLock(seconds: 1000)
        let error = #expect(throws: DataProtectionError.self) {
            try bag.keybag.load(keys, seconds: nil, ifCounterIs: counter)
        }
        #expect(error == .because(KeybagFailure.lockedMeanwhile(keybag: bag.directory)))
        #expect(bag.timeoutColumn(.unlocked) != "perm", "the keys still go when they are due")
    }

    @Test("Not a lock that came before it")
    func lockBefore() throws {
        let bag = try TestKeybag(state: .locked)
        let counter = try bag.keybag.transition.readStrictly().counter
        let keys = try bag.openedKeys()
        _ = try bag.keybag.load(keys, seconds: nil, ifCounterIs: counter)
        #expect(try bag.keybag.state() == .unlocked)
    }

    @Test("Also one that did not get the transition file, because the unlock was stopped while it held it")
    func withoutFlock() throws {
        let bag = try TestKeybag(state: .unlocked)
        let before = bag.keybag.transition.read().counter
        try bag.keybag.transition.exclusively { record throws(DataProtectionError) in
            // Such a lock is not proven, but the unlock sees it.
            #expect(
                throws: DataProtectionError.because(
                    KeybagFailure.lockUnproven(keybag: bag.directory, .held(processes: [getpid()])))
            ) {
                try bag.keybag.lock()
            }
            record.deadline = 12_345
        }
        #expect(bag.keybag.transition.read().counter == before + 1)
        #expect(bag.keybag.transition.read().deadline == 12_345)
    }

    @Test("At any moment")
    func anyMoment() async throws {
        let bag = try TestKeybag()
        for _ in 0..<60 {
            KeyQuota.waitForRoom()
            let counter = try bag.keybag.transition.readStrictly().counter
            async let unlocking: Void? = try? bag.loadNow(ifCounterIs: counter)
            async let locking: Void = bag.keybag.lock()
            _ = try await (unlocking, locking)
            #expect(try bag.keybag.state() != .unlocked)
        }
    }

    @Test("At any moment, and without the transition file's flock")
    func anyMomentWithoutFlock() async throws {
        let bag = try TestKeybag()
        for _ in 0..<200 {
            KeyQuota.waitForRoom()
            let counter = try bag.keybag.transition.readStrictly().counter
            async let unlocking: Void? = try? bag.loadNow(ifCounterIs: counter)
            async let locking: Void = bag.lockWithoutFlock(raising: counter)
            _ = try await (unlocking, locking)
            #expect(try bag.keybag.state() != .unlocked)
        }
    }

    @Test("Many of both leave a state that is whole")
    func manyOfBoth() async throws {
        let bag = try TestKeybag(state: .locked)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                group.addTask {
                    let keybag = try bag.reopened()
                    for _ in 0..<10 {
                        KeyQuota.waitForRoom()
                        if number % 2 == 0 {
                            try keybag.lock()
                        } else {
                            do {
                                try keybag.unlock(passcode: secret(TestKeybag.passcode))
                            } catch DataProtectionError.because(KeybagFailure.lockedMeanwhile) {
                            } catch DataProtectionError.because(KeybagFailure.throttled) {
                                // Attempts that are under way at the same time count until one of them succeeds.
                            }
                        }
                        // C was there from the start and is never taken away.
                        #expect(try keybag.state() != .beforeFirstUnlock)
                    }
                }
            }
            try await group.waitForAll()
        }
        try bag.keybag.lock()
        #expect(try bag.keybag.state() == .locked)
    }

    @Test("An unlock that cannot read the counter loads nothing", arguments: KeybagLockTests.Obstacle.allCases)
    func counterUnreadable(obstacle: KeybagLockTests.Obstacle) throws {
        let bag = try TestKeybag()
        try obstacle.apply(to: bag)
        if obstacle.isRepairable {
            try bag.unlock()
            #expect(try bag.keybag.state() == .unlocked)
            let before = bag.keybag.transition.read().counter
            try bag.keybag.lock()
            #expect(bag.keybag.transition.read().counter == before + 1)
        } else {
            expectError("system") { try bag.unlock() }
            #expect(bag.ringContents == [])
        }
    }

    @Test("An unlock that cannot read the counter any more loads nothing", arguments: KeybagLockTests.Obstacle.allCases)
    func counterUnreadableMeanwhile(obstacle: KeybagLockTests.Obstacle) throws {
        let bag = try TestKeybag(state: .locked)
        let counter = try bag.keybag.transition.readStrictly().counter
        #expect(counter == 1)
        let keys = try bag.openedKeys()
        try obstacle.apply(to: bag)
        #expect(throws: DataProtectionError.self) {
            try bag.keybag.load(keys, seconds: nil, ifCounterIs: counter)
        }
        #expect(bag.ringContents == [2])
    }
}

extension TestKeybag {
    /// What an unlock has in hand between the passcode and the ring.
    func openedKeys(_ extent: OpenedKeys.Extent = .all) throws -> OpenedKeys {
        let loaded = try keybag.file.load()
        let key = try keybag.openWithPasscode(secret(Self.passcode), loaded)
        return try OpenedKeys(loaded, key, directory, extent)
    }

    /// The second half of an unlock.
    fileprivate func loadNow(ifCounterIs counter: UInt64) throws {
        _ = try keybag.load(try openedKeys(), seconds: nil, ifCounterIs: counter)
    }

    /// What a lock does that waited in vain for the flock.
    fileprivate func lockWithoutFlock(raising counter: UInt64) throws {
        usleep(UInt32.random(in: 0...4000))
        var record = keybag.transition.read()
        record.counter = counter + 1
        let file = try LowerFile(self.file("transition"), flags: O_RDWR)
        try file.write(Array(record.encoded.prefix(16)), at: 0)
        try keybag.ring.evict()
    }
}
