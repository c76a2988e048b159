import Glibc
import KernelKeyring
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection
@testable import Keybags

@Suite("Locking whatever became of the files")
struct KeybagLockTests {
    @Test("Works, whatever is in the place of the transition file", arguments: Obstacle.allCases)
    func transitionFile(obstacle: Obstacle) throws {
        let bag = try TestKeybag(state: .unlocked)
        try obstacle.apply(to: bag)
        try bag.keybag.lock()
        #expect(bag.ringContents == [2])
        #expect(try bag.keybag.state() == .locked)
    }

    @Test("Evicts the keys of a keybag that was in the directory before", arguments: [nil, 0, 60] as [UInt32?])
    func predecessor(grace: UInt32?) throws {
        let (bag, other) = (try TestKeybag(state: .unlocked), try TestKeybag())
        for name in KeybagFile.names {
            try bag.file(name).overwrite(try other.file(name).contents())
        }
        let keybag = try bag.reopened()
        #expect(keybag.uuid == other.keybag.uuid && bag.ringContents == [2, 1])
        #expect(KeybagHealth(of: bag.directory).loadedPredecessors == [bag.keybag.uuid])
        if let grace { _ = try keybag.armLock(seconds: grace) } else { try keybag.lock() }
        #expect(bag.ringContents == [2])
        #expect(KeybagHealth(of: bag.directory).loadedPredecessors == [])
    }

    @Test("Fails where the record of namespaces cannot be read, after the keys here have gone")
    func unreadablePlaces() throws {
        let bag = try TestKeybag(state: .unlocked)
        try? bag.file("rings").remove()
        #expect(mkdir(bag.file("rings").string, 0o700) == 0)
        expectError("notRegularFile") { try bag.keybag.lock() }
        #expect(bag.ringContents == [2])
        #expect(rmdir(bag.file("rings").string) == 0)
        try bag.keybag.lock()
    }

    @Test(
        "A process whose real and effective user differ opens no keybag",
        .enabled(if: geteuid() == 0, "needs root: it takes another uid"))
    func twoUsers() async {
        await #expect(processExitsWith: .success) {
            let bag = try TestKeybag(state: .unlocked)
            #expect(chown(bag.directory.string, 60_001, 60_001) == 0 && seteuid(60_001) == 0)
            defer { _ = seteuid(0) }
            expectError("keybagUnsafe") { _ = try bag.reopened() }
        }
    }

    @Test("Works without the keybag's directory")
    func withoutDirectory() throws {
        let bag = try TestKeybag(state: .unlocked)
        try bag.directory.remove()
        try bag.keybag.lock()
        #expect(bag.ringContents == [2])
        try bag.keybag.evictEverything()
        #expect(bag.ringContents == [])
    }

    @Test("Waits at most a second for a holder of the transition file; then locks, raises the counter, unproven")
    func heldElsewhere() throws {
        let bag = try TestKeybag(state: .unlocked)
        let before = bag.keybag.transition.read().counter
        let holder = try LowerFile(bag.file("transition"), flags: O_RDWR)
        #expect(flock(holder.descriptor, LOCK_EX) == 0)
        // Should it wait for ever, this test would not end.
        let error = expectError("lockUnproven") { try bag.keybag.lock() }
        #expect(error == .because(KeybagFailure.lockUnproven(keybag: bag.directory, .held(processes: [getpid()]))))
        #expect(try bag.keybag.state() == .locked)
        #expect(bag.keybag.transition.read().counter == before + 1)
    }

    @Test("A lock fails while an entry of an unknown boot is there")
    func unknownBoot() throws {
        let bag = try TestKeybag(state: .unlocked)
        let zeros = String(repeating: "0", count: 32)
        try bag.file("rings").overwrite(Array("77 \(zeros) 0\n".utf8))
        for _ in 0..<2 {
            expectError("keysElsewhere") { try bag.keybag.lock() }
            #expect(bag.ringContents == [2])
        }
        let dated = "77 \(Hexadecimal.text(Clock.bootID())) 0"
        #expect(String(decoding: try bag.file("rings").contents(), as: UTF8.self).hasPrefix(dated + "\n"))
        try bag.file("rings").overwrite(Array("77 \(String(repeating: "7", count: 32)) 0\n".utf8))
        try bag.keybag.lock()
    }

    @Test("An entry is possible if its boot, or this process's, is unknown")
    func possiblePlaces() {
        let (one, other) = ([UInt8](repeating: 1, count: 16), [UInt8](repeating: 2, count: 16))
        for (entry, reader, isPossible) in [
            (one, one, true), (one, other, false), (Clock.unknownBoot, one, true), (one, Clock.unknownBoot, true),
            (Clock.unknownBoot, Clock.unknownBoot, true),
        ] {
            let place = RingPlaces.Place(namespace: 77, bootID: entry, expiry: 0)
            #expect(place.isPossible(in: reader) == isPossible)
        }
    }

    @Test("Where the record of namespaces is full an unlock fails, and no entry is dropped")
    func fullRecord() throws {
        let bag = try TestKeybag()
        let entries = (0..<22).map { "\(4_100_000_000 + $0) \(Hexadecimal.text(Clock.bootID())) 0" }
        func stored() throws -> [String] {
            String(decoding: try bag.file("rings").contents(), as: UTF8.self).split(separator: "\n").map(String.init)
        }
        func unlock() throws {
            try bag.keybag.unlock(passcode: secret(TestKeybag.passcode), allowsNamespace: true)
        }
        try bag.file("rings").overwrite(Array(entries.joined(separator: "\n").utf8))
        let error = expectError("tooManyNamespaces") { try unlock() }
        let namespaces: [UInt64] = (0..<22).map { 4_100_000_000 + $0 }
        #expect(error == .because(KeybagFailure.tooManyNamespaces(keybag: bag.directory, namespaces: namespaces)))
        #expect(bag.ringContents == [])
        #expect(try stored() == entries)

        try bag.file("rings").overwrite(Array(entries[..<12].joined(separator: "\n").utf8))
        try unlock()
        #expect(try stored().count == 13)
        expectError("keysElsewhere") { try bag.keybag.lock() }
        #expect(bag.ringContents == [2])
        #expect(try stored() == Array(entries[..<12]))
    }

    @Test("A lock of a keybag that does not open fails while another namespace holds keys")
    func damagedAndElsewhere() throws {
        let bag = try TestKeybag(state: .unlocked)
        let rings = String(decoding: try bag.file("rings").contents(), as: UTF8.self)
        let own = try #require(rings.split(separator: "\n").first { $0.split(separator: " ").count == 3 })
        for copy in [0, 1] { try bag.file("keybag.\(copy)").overwrite([1]) }
        let other = "77 \(Hexadecimal.text(Clock.bootID())) 0"
        try bag.file("rings").overwrite(Array("\(own)\n\(other)\n".utf8))
        expectError("keysElsewhere") { try Keybag.lock(bag.keybag.uuid) }
        #expect(bag.ringContents == [2])
        let left = String(decoding: try bag.file("rings").contents(), as: UTF8.self)
        #expect(left.split(separator: "\n").map(String.init) == [other], "only the own entry has gone")
        try bag.file("rings").overwrite([])
        try Keybag.lock(bag.keybag.uuid)
        try bag.directory.remove()
        let (areRingsKnown, doubt) = try LockOfUnopened.lock(unopened: bag.directory)
        #expect(!areRingsKnown && doubt == nil)
        try Keybag.lock(bag.keybag.uuid)
    }

    @Test("A lock of a keybag that does not open stops an unlock that is under way")
    func unlockUnderWay() throws {
        let bag = try TestKeybag(state: .unlocked)
        for copy in [0, 1] { try bag.file("keybag.\(copy)").overwrite([1]) }
        let before = TransitionFile(directory: bag.directory).read().counter
        try Keybag.lock(bag.keybag.uuid)
        #expect(bag.ringContents == [2])
        #expect(TransitionFile(directory: bag.directory).read().counter == before + 1, "an earlier unlock is refused")
    }

    /// Stopped in between by chance, for example. All that it needs from then on it has.
    @Test("An unlock that has begun, and has not looked at the counter yet, is stopped too", arguments: [false, true])
    func unlockThatLooksLate(isGrace: Bool) throws {
        let bag = try TestKeybag(state: isGrace ? .unlocked : .locked)
        let note = try UnlockUnderWay(of: bag.keybag.uuid, in: bag.directory)
        defer { note.end() }
        if isGrace { _ = try bag.keybag.armLock(seconds: 1000) } else { try bag.keybag.lock() }
        let opened = try bag.keybag.open(passcode: secret(TestKeybag.passcode))
        let keys = try OpenedKeys(bag.keybag.file.load(), opened.key, bag.directory)
        expectError("lockedMeanwhile") {
            _ = try bag.keybag.load(
                keys, seconds: nil, ifCounterIs: bag.keybag.transition.readStrictly().counter, noted: note)
        }
        #expect(bag.keybag.armedLock != nil || bag.ringContents == [2])
    }

    @Test("Nothing is written into a directory without a keybag")
    func noKeybag() throws {
        let directory = ScratchDirectory()
        let (areRingsKnown, doubt) = try LockOfUnopened.lock(unopened: directory.path)
        #expect(areRingsKnown && doubt == nil)
        #expect(try directory.path.names() == [])
    }

    @Test("Does not wait for a FIFO among the notes of class changes")
    func fifoAmongNotes() throws {
        let bag = try TestKeybag(state: .unlocked)
        try OwnDirectory.make(bag.file("changing"))
        try bag.file("changing").appending("1.1").makeFIFO()
        // Should it wait for a writer, this test would not end.
        try bag.keybag.lock()
        #expect(try bag.keybag.state() == .locked)
        try bag.unlock()
    }

    @Test("Raises the counter every time, also when there is nothing to lock")
    func counter() throws {
        let bag = try TestKeybag()
        for expected in 1...3 as ClosedRange<UInt64> {
            try bag.keybag.lock()
            #expect(bag.keybag.transition.read().counter == expected)
        }
        try bag.unlock()
        #expect(bag.keybag.transition.read().counter == 3)
    }

    @Test("A lock that finds nothing to evict leaves the time since when the keybag has been locked")
    func lockedSince() throws {
        let bag = try TestKeybag(state: .locked)
        var record = bag.keybag.transition.read()
        record.changedAt = 1_000
        try bag.file("transition").overwrite(record.encoded)
        try bag.keybag.lock()
        #expect(try bag.keybag.armLock(seconds: 10) == nil)
        try Keybag.lock(bag.keybag.uuid)
        #expect(try bag.keybag.status().lastTransitionSeconds == 1_000)
        try bag.unlock()
        try bag.keybag.lock()
        #expect(try #require(try bag.keybag.status().lastTransitionSeconds) > 1_000)
    }

    @Test("Keys that expired have been gone since their time was over, whenever the next lock is")
    func lockedSinceExpiry() throws {
        let bag = try TestKeybag()
        try bag.unlock(forSeconds: 0)
        try bag.waitUntilExpired(.unlocked)
        try bag.keybag.transition.exclusively { record in record.limit -= 60_000_000_000 }
        let expected = Clock.now() - 63...Clock.now() - 59
        #expect(expected.contains(try #require(try bag.keybag.status().lastTransitionSeconds)))
        try bag.keybag.lock()
        #expect(expected.contains(try #require(try bag.keybag.status().lastTransitionSeconds)))
    }

    @Test("Works with a transition file that says the last number of all")
    func lastCounter() throws {
        let bag = try TestKeybag(state: .unlocked)
        var record = TransitionRecord()
        record.counter = .max
        record.deadline = .max
        record.changedAt = .max
        try bag.file("transition").overwrite(record.encoded)
        _ = try bag.keybag.status()
        _ = try bag.keybag.armLock(seconds: 10)
        #expect(bag.keybag.transition.read().counter == 0)
        try bag.keybag.lock()
        #expect(try bag.keybag.state() == .locked)
    }

    @Test("An expired remnant is cleared by a lock, by an unlock, and by opening the keybag", arguments: 0..<3)
    func expiredRemnant(who: Int) async throws {
        let bag = try TestKeybag(state: .unlocked)
        let serial = try bag.keybag.ring.unlocked.find()
        try bag.setTimeout(.unlocked, seconds: 1)
        try bag.waitUntilExpired(.unlocked)
        #expect(try bag.keybag.state() == .locked)
        #expect(try Keybag.loaded().contains(bag.keybag.uuid))
        switch who {
        case 0: try bag.keybag.lock()
        case 1: try bag.unlock()
        default: _ = try bag.reopened()
        }
        #expect(bag.absence(.unlocked) == (who == 1 ? nil : .requiredKeyNotAvailable))
        // Revived under its old serial it would still hold the old payload.
        var byte: UInt8 = 0
        #expect(throws: Errno.self) { try withUnsafeMutableBytes(of: &byte) { _ = try serial.read(into: $0) } }
    }

    @Test("Locking one keybag leaves others alone")
    func others() throws {
        let (bag, other) = (try TestKeybag(state: .unlocked), try TestKeybag(state: .unlocked))
        try bag.keybag.lock()
        #expect(try other.keybag.state() == .unlocked)
        #expect(try Set(Keybag.loaded()).isSuperset(of: [bag.keybag.uuid, other.keybag.uuid]))
        try bag.keybag.evictEverything()
        #expect(try !Keybag.loaded().contains(bag.keybag.uuid))
    }

    /// What can become of the transition file.
    enum Obstacle: String, CaseIterable {
        case missing, empty, garbage, short, directory, symbolicLink, fifo

        func apply(to bag: TestKeybag) throws {
            let path = bag.file("transition")
            switch self {
            case .missing: try path.remove()
            case .empty: try path.overwrite([])
            case .garbage: try path.overwrite((0..<64).map { _ in UInt8.random(in: 0...255) })
            case .short: try path.overwrite(Array(try path.contents().prefix(30)))
            case .directory: try path.replaceByDirectory()
            case .symbolicLink:
                try path.remove()
                try path.makeSymbolicLink(to: "nowhere")
            case .fifo:
                try path.remove()
                try path.makeFIFO()
            }
        }

        /// Whether the next one who writes to it makes it good again.
        var isRepairable: Bool { [.missing, .empty, .garbage, .short].contains(self) }
    }
}
