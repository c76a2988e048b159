import Glibc
import KernelKeyring
import ProtectionFormat
import ProtectionKeys
import StormScript
import Synchronization
import SystemPackage
import Testing

@testable import DataProtection

/// What a rotation makes of the keybag, and what an earlier copy of it still gives. FORMAT.md §2.11.
@Suite("A rotated keybag")
struct RotatedKeybagTests {
    private static let text = pattern(4, count: 5000)

    @Test("A saved copy and its passcode open none of the rotated files", arguments: [false, true])
    func savedCopy(isForgotten: Bool) throws {
        let bed = try FileTestBed()
        let paths = try ProtectionClass.allCases.map { try bed.make("\($0)", $0, Self.text) }
        let untouched = try bed.make("untouched", .complete, Self.text)
        let saved = try bed.bag.savedCopy()
        try bed.bag.rotate()
        for path in paths { try bed.keybag.rewrap(fileAt: path) }
        if isForgotten { try bed.bag.forgetRetired() }

        // The thief has keybag, passcode, device key and files.
        try bed.keybag.evictEverything()
        let thief = try Keybag(at: saved)
        try thief.unlock(passcode: secret(TestKeybag.passcode))
        #expect(try thief.state() == .unlocked)
        for path in paths { expectError("keyLost") { _ = try ProtectedFile.open(path, keybag: thief) } }
        let kept = try ProtectedFile.open(untouched, keybag: thief).bytes(at: 0, count: 5000)
        #expect(kept == Self.text, "what was not rotated opens, as it must")
        // Nor do the keys themselves, whatever generation they are given out for.
        for record in try paths.flatMap({ try StoredWraps($0).records }) {
            let isOpen = try opens(record, thief)
            #expect(!isOpen)
        }
    }

    /// Whether a class key of an earlier generation unwraps a record.
    private func opens(_ record: WrapRecord, _ thief: Keybag) throws -> Bool {
        let name = ClassKeyName(
            keybag: thief.uuid, protectionClass: record.classKey.protectionClass, generation: 1)
        if name.protectionClass == .completeUnlessOpen {
            return try thief.withClassB(name) { key throws(DataProtectionError) in
                do throws(KeyError) { _ = try key.unwrap(record.wrapped) } catch { return false }
                return true
            } ?? false
        }
        return try thief.withClassKey(name) { key throws(DataProtectionError) in
            do throws(KeyError) { _ = try key.unwrap(record.wrapped) } catch { return false }
            return true
        } ?? false
    }

    @Test("The old keybag key opens no class key of the new copy")
    func newKeybagKey() throws {
        let bag = try TestKeybag(state: .unlocked)
        let old = try bag.keybag.openWithPasscode(secret(TestKeybag.passcode), try bag.keybag.file.load())
        try bag.rotate()
        let loaded = try bag.keybag.file.load()
        #expect(loaded.copy.entries.count == 12)
        for entry in loaded.copy.usedEntries {
            let name = try #require(loaded.copy.name(of: entry))
            var isRefused = false
            do throws(KeyError) { _ = try old.unwrap(entry.wrapped, as: name) } catch { isRefused = true }
            #expect(isRefused, "\(name)")
        }
        let isMACGood = try KeybagCopy.isMACGood(loaded.bytes, under: old)
        #expect(!isMACGood)
        #expect(try bag.opens(with: TestKeybag.passcode))
    }

    @Test("Entries of reserved kinds go with the new keybag key")
    func reservedKinds() throws {
        let bag = try TestKeybag(state: .unlocked)
        try bag.rewriteAuthentically { copy in
            let entry = copy.repeatEntry(.complete)
            copy.bytes[entry] = 2
        }
        try bag.rotate()
        let copy = try bag.keybag.file.load().copy
        let kept = copy.entries.filter { $0.kind == 2 }
        #expect(kept.count == 1)
        #expect(kept[0].state == .active, "whatever that means to them")
        let a = try #require(copy.entry(of: ClassKeyName(keybag: copy.uuid, protectionClass: .complete, generation: 1)))
        #expect(kept[0].wrapped == a.wrapped, "the same key under the same new one")
        try bag.forgetRetired()
        #expect(try bag.keybag.file.load().copy.entries.count == 7)
    }

    @Test("An entry of a reserved kind goes through rotations as it is, whatever a later version keeps in it")
    func reservedContent() throws {
        let bag = try TestKeybag(state: .unlocked)
        let content = (24..<200).map { UInt8(truncatingIfNeeded: 7 &* $0) }
        try bag.rewriteAuthentically { copy in
            let entry = copy.repeatEntry(.complete)
            copy.bytes[entry] = 9
            copy.set(content, at: entry + 24)
        }
        for _ in 0..<2 { try bag.rotate() }
        let stored = try StoredKeybag(of: bag)
        let entry = stored.entry(6)
        #expect(stored.bytes[entry] == 9)
        #expect(Array(stored.bytes[entry + 24..<entry + 200]) == content)
        try bag.forgetRetired()
        #expect(try bag.keybag.file.load().copy.entries.count == 7)
        try bag.keybag.lock()
        try bag.unlock()
    }

    @Test("Files not rewrapped are key lost once the old keys are forgotten")
    func forgotten() throws {
        let bed = try FileTestBed()
        let paths = try ProtectionClass.allCases.map { try bed.make("\($0)", $0, Self.text) }
        try bed.bag.rotate()
        try bed.bag.forgetRetired()
        #expect(bed.keybag.retiredGenerations == [])
        for (path, protectionClass) in zip(paths, ProtectionClass.allCases) {
            let error = expectError("keyLost") { _ = try bed.read(path) }
            #expect(error == .because(KeybagFailure.keyLost(path, protectionClass, generation: 1)))
            expectError("keyLost") { try bed.keybag.rewrap(fileAt: path) }
            expectError("keyLost") { _ = try bed.keybag.needsRewrap(fileAt: path) }
        }
        for name in ["1", "2"] {
            let key = RingKey(description: "protectfs:\(bed.keybag.uuid):\(name)")
            var serial: KeySerial?
            guard let payload = try RingKeys.payload(of: key, serial: &serial) else {
                Issue.record("key \(name) is not there")
                continue
            }
            let count = payload.count
            #expect(count == 136, "the ring has forgotten them too: one generation of three")
        }
    }

    @Test("Needs an unlocked keybag; nothing changes else", arguments: [ProtectionState.locked, .beforeFirstUnlock])
    func locked(state: ProtectionState) throws {
        let bag = try TestKeybag(state: state)
        let before = try bag.file("keybag.0").contents()
        expectError("locked") { try bag.rotate() }
        expectError("locked") { try bag.forgetRetired() }
        #expect(try bag.file("keybag.0").contents() == before)
        #expect(try bag.keybag.state() == state)
    }

    private static let orders = [KeyExchange.ringFirst(generation: 1), .keybagFirst]

    @Test("A lock meanwhile wins over the keys that are loaded", arguments: orders)
    func lockMeanwhile(order: KeyExchange) throws {
        let bag = try TestKeybag(state: .unlocked)
        let counter = try bag.keybag.transition.readStrictly().counter
        let loaded = try bag.keybag.file.load()
        let key = try bag.keybag.openWithPasscode(secret(TestKeybag.passcode), loaded)
        let keys = try OpenedKeys(loaded, key, bag.directory)
        try bag.keybag.exchange(keys, ifCounterIs: counter, order) {}
        try bag.keybag.lock()
        do throws(DataProtectionError) {
            try bag.keybag.exchange(keys, ifCounterIs: counter, order) {}
            Issue.record("keys were loaded after a lock")
        } catch {
            #expect(error.caseName == "lockedMeanwhile")
        }
        let after = try bag.keybag.transition.readStrictly().counter
        do throws(DataProtectionError) {
            try bag.keybag.exchange(keys, ifCounterIs: after, order) {}
            Issue.record("keys came back that had gone")
        } catch {
            #expect(error.caseName == "lockedMeanwhile")
        }
        #expect(try bag.keybag.state() == .locked)
        #expect(bag.ringContents == [2])
    }

    /// Keys of a keybag that is not stored: of the same one without class keys of secrets.
    private func otherKeys(of bag: TestKeybag) throws -> OpenedKeys {
        let loaded = try bag.keybag.file.load()
        let key = try bag.keybag.openWithPasscode(secret(TestKeybag.passcode), loaded)
        var copy = loaded.copy
        copy.entries.removeAll { $0.isOf(.secrets) }
        let bytes = try copy.encoded(under: key)
        return try OpenedKeys(KeybagFile.Loaded(unstored: copy, bytes), key, bag.directory)
    }

    @Test("Where the keybag cannot be replaced, the ring has its old keys again, with the rest of their time")
    func notReplaced() throws {
        let bag = try TestKeybag()
        try bag.unlock(forSeconds: 1000)
        let before = try TestKeybag.Place.allCases.map { try bag.payload($0) }
        let copy = try bag.file("keybag.0").contents()
        let counter = try bag.keybag.transition.readStrictly().counter
        let keys = try otherKeys(of: bag)
        expectError("busy") {
            try bag.keybag.exchange(keys, ifCounterIs: counter, .ringFirst(generation: 2)) {
                () throws(DataProtectionError) in
                #expect(bag.keybag.ring.unfinishedRotation == 2)
                throw .busy(bag.directory)
            }
        }
        #expect(try TestKeybag.Place.allCases.map { try bag.payload($0) } == before)
        #expect(bag.keybag.ring.unfinishedRotation == nil)
        #expect(bag.timeoutColumn(.unlocked) != "perm")
        #expect(bag.timeoutColumn(.firstUnlock) == "perm")
        #expect(try bag.file("keybag.0").contents() == copy)
    }

    @Test("A lock that could not wait for its turn wins over a rotation that fails then")
    func overtaken() throws {
        let bag = try TestKeybag(state: .unlocked)
        let counter = try bag.keybag.transition.readStrictly().counter
        let keys = try otherKeys(of: bag)
        expectError("busy") {
            try bag.keybag.exchange(keys, ifCounterIs: counter, .ringFirst(generation: 2)) {
                () throws(DataProtectionError) in
                // This exchange has the flock that the lock waits for.
                expectError("lockUnproven") { try bag.keybag.lock() }
                throw .busy(bag.directory)
            }
        }
        #expect(try bag.keybag.state() == .locked)
        #expect(bag.ringContents == [2])
    }

    @Test("A limited unlock stays limited")
    func timeouts() throws {
        let bag = try TestKeybag()
        try bag.unlock(forSeconds: 2)
        let limit = try bag.keybag.transition.readStrictly().limit
        try bag.rotate()
        #expect(try bag.keybag.transition.readStrictly().limit == limit)
        var waited = 0
        while try bag.keybag.state() == .unlocked, waited < 100 {
            usleep(100_000)
            waited += 1
        }
        #expect(try bag.keybag.state() == .locked)
    }

    @Test("The recovery code of before is void; a new one opens")
    func recoveryCodes() throws {
        let bag = try TestKeybag(state: .unlocked)
        let old = try bag.makeRecoveryCode()
        let new = try RecoveryCode.random()
        try bag.keybag.open(passcode: secret(TestKeybag.passcode)).rotate(
            passcode: secret("another"), TestKeybag.iterations, new, TestKeybag.iterations)
        #expect(try !bag.opens(with: old))
        #expect(try bag.opens(with: new))
        #expect(try bag.opens(with: "another"))
        #expect(try !bag.opens(with: TestKeybag.passcode))
        try bag.rotate(passcode: "another")
        expectError("noRecoveryCode") { _ = try bag.opens(with: new) }
    }

    @Test("Of two at the same time one is told busy; nothing forgotten comes back")
    func concurrent() throws {
        let bag = try TestKeybag(state: .unlocked)
        let first = try bag.keybag.open(passcode: secret(TestKeybag.passcode))
        try bag.rotate()
        do throws(DataProtectionError) {
            try first.rotate(passcode: secret("x"), iterations: TestKeybag.iterations)
            Issue.record("a slot that is not there any more was enough")
        } catch {
            #expect(error == .busy(bag.directory))
        }
        #expect(bag.keybag.retiredGenerations == [1])
        let second = try bag.keybag.open(passcode: secret(TestKeybag.passcode))
        try bag.rotate()
        do throws(DataProtectionError) {
            try second.forgetRetiredKeys(before: .max)
            Issue.record("a slot that is not there any more was enough")
        } catch {
            #expect(error == .busy(bag.directory))
        }
        #expect(bag.keybag.retiredGenerations == [1, 2])
    }

    @Test("Keys that were retired after the look for files are not forgotten")
    func retiredMeanwhile() throws {
        let bed = try FileTestBed()
        try bed.bag.rotate()
        let path = try bed.make("f", .complete, Self.text)
        let looked = bed.keybag.activeGeneration
        #expect(try !bed.keybag.needsRewrap(fileAt: path))
        try bed.bag.rotate()  // by somebody else
        let opened = try bed.keybag.open(passcode: secret(TestKeybag.passcode))
        try opened.forgetRetiredKeys(before: looked)
        #expect(bed.keybag.retiredGenerations == [2])
        #expect(try bed.read(path) == Self.text)
    }

    @Test("A damaged copy that a restore has kept is named: it has the forgotten keys")
    func copiesAside() throws {
        let bag = try TestKeybag(state: .unlocked)
        let aside = bag.file("keybag.0.damaged-2")
        try aside.overwrite(bag.file("keybag.0").contents())
        try bag.rotate()
        try bag.forgetRetired()
        #expect(bag.warnings.unusual == [.forgottenKeysLeft(aside)])
        #expect(try aside.contents() != bag.file("keybag.0").contents())
    }

    /// A generation is a number: after an older copy was put back, the next one is another key of the same number.
    @Test("After an older copy was put back and rotated, files of the lost keys are refused")
    func forkedGenerations() throws {
        let bed = try FileTestBed()
        let saved = try bed.bag.savedCopy()
        try bed.bag.rotate()
        let lost = try ProtectionClass.allCases.map { try bed.make("\($0)", $0, Self.text) }
        for name in KeybagFile.names { try bed.bag.file(name).overwrite(saved.appending(name).contents()) }
        try bed.bag.unlock()
        for path in lost { expectError("keyLost") { _ = try bed.read(path) } }
        try bed.bag.rotate()
        for path in lost { expectError("otherKey") { _ = try bed.read(path) } }
        try bed.keybag.evictEverything()
        try bed.bag.unlock()
        for protectionClass in ProtectionClass.allCases {
            let path = try bed.make("new \(protectionClass)", protectionClass, Self.text)
            #expect(try ProtectedFile.open(path, keybag: bed.bag.reopened()).bytes(at: 0, count: 5000) == Self.text)
        }
    }

    @Test("An older keybag that was put back wraps nothing new under the retired keys", arguments: [false, true])
    func olderPutBack(isLocked: Bool) throws {
        let bed = try FileTestBed()
        let code = try bed.bag.makeRecoveryCode()
        let saved = try bed.bag.savedCopy()
        try bed.bag.rotate()
        let plain = try bed.makePlain("plain", Self.text)
        if isLocked { try bed.enter(.locked) }
        for name in KeybagFile.names { try bed.bag.file(name).overwrite(saved.appending(name).contents()) }
        let classes = ProtectionClass.allCases.filter { !isLocked || $0 != .complete }
        for keybag in [bed.keybag, try bed.bag.reopened()] {
            for protectionClass in classes {
                let error = expectError("keybagDamaged", "\(protectionClass)") {
                    _ = try ProtectedFileWriter(bed.path("new"), as: protectionClass, keybag: keybag)
                }
                #expect(error.map { "\($0)".contains("older copy was put back") } == true)
                expectError("keybagDamaged") { try keybag.protect(plain, as: protectionClass) }
            }
        }
        #expect(try bed.names() == ["plain"])
        #expect(try plain.contents() == Self.text)
        // Nor does the passcode, or the recovery code, change it.
        let stored = try KeybagFile.names.map { try bed.bag.file($0).contents() }
        expectError("keybagDamaged") { try bed.bag.rotate() }
        expectError("keybagDamaged") { _ = try bed.keybag.open(passcode: secret(TestKeybag.passcode)) }
        expectError("keybagDamaged") { _ = try bed.keybag.open(recoveryCode: code) }
        #expect(try KeybagFile.names.map { try bed.bag.file($0).contents() } == stored)
    }

    @Test("Two devices rotate copies of one keybag: no file is called damaged, and each keybag opens its own again")
    func twoDevices() throws {
        let bed = try FileTestBed()
        func use(_ saved: FilePath) throws {
            try bed.keybag.evictEverything()
            for name in KeybagFile.names { try bed.bag.file(name).overwrite(saved.appending(name).contents()) }
            try bed.bag.unlock()
        }
        let second = try bed.bag.savedCopy()
        try bed.bag.rotate()
        let files = try ProtectionClass.allCases.map { try bed.make("\($0)", $0, Self.text) }
        let stored = try files.map { try $0.contents() }
        let first = try bed.bag.savedCopy()

        try use(second)
        for path in files {
            let error = expectError("keyLost") { _ = try bed.read(path) }
            guard case .because(KeybagFailure.keyLost(_, _, generation: 2, isNewer: true))? = error else {
                Issue.record("\(path): \(String(describing: error))")
                continue
            }
        }
        for rotation in 1...2 {
            try bed.bag.rotate()
            for path in files {
                expectError("otherKey", "rotation \(rotation)") { _ = try bed.read(path) }
                expectError("otherKey", "rotation \(rotation)") { _ = try bed.keybag.verify(path) }
                _ = try? bed.keybag.rewrap(fileAt: path)
            }
        }
        try bed.bag.forgetRetired()
        for path in files {
            let error = expectError("keyLost") { _ = try bed.read(path) }
            #expect(
                error
                    == .because(
                        KeybagFailure.keyLost(path, try ProtectedFileInfo(of: path).protectionClass, generation: 2)))
        }
        #expect(try files.map { try $0.contents() } == stored, "nothing was changed")

        try use(first)
        for path in files { #expect(try bed.read(path) == Self.text) }
    }

    @Test("A full keybag refuses, and has room again when it has forgotten")
    func full() throws {
        let bag = try TestKeybag(state: .unlocked)
        for generation in 2...10 as ClosedRange<UInt32> { #expect(try bag.rotate() == generation) }
        let before = try bag.file("keybag.0").contents()
        expectError("tooManyGenerations") { try bag.rotate() }
        #expect(try bag.file("keybag.0").contents() == before)
        try bag.keybag.lock()
        try bag.unlock()
        #expect(try bag.keybag.state() == .unlocked, "ten generations go into the ring")
        try bag.forgetRetired()
        #expect(try bag.rotate() == 11)
    }

    @Test("Unlocks beside rotations leave no ring without the new keys")
    func unlocksBeside() async throws {
        let bag = try TestKeybag(state: .unlocked)
        let end = Flag()
        let unlocks = Task.detached {
            let other = try bag.reopened()
            while !end.isSet.load(ordering: .relaxed) { try other.unlock(passcode: secret(TestKeybag.passcode)) }
        }
        for _ in 0..<60 {
            try bag.rotate()
            #expect(try bag.keybag.state() == .unlocked)
            try bag.forgetRetired()
            #expect(try bag.keybag.state() == .unlocked)
        }
        end.isSet.store(true, ordering: .relaxed)
        try await unlocks.value
        #expect(try bag.keybag.state() == .unlocked)
    }

    private final class Flag: Sendable {
        let isSet = Atomic(false)
    }
}
