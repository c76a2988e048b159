import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection
@testable import Keybags

/// Somebody who can write to the keybag's directory, and to another place of the user's for a device key, and has no key.
@Suite("A planted class key D")
struct PlantedClassDTests {
    @Test(
        "After the first unlock no file is made under it, and none is read, until the genuine keybag is back",
        arguments: [ProtectionState.locked, .unlocked], [false, true])
    func afterFirstUnlock(state: ProtectionState, isNewGeneration: Bool) throws {
        let bed = try FileTestBed(state: state)
        let old = try bed.make("old", .none, [1, 2, 3])
        let genuine = try StoredKeybag(of: bed.bag)
        try Planted(in: bed.bag, isNewGeneration: isNewGeneration).store(in: bed.bag)
        for keybag in [bed.keybag, try bed.bag.reopened()] {
            expectError("keybagDamaged") {
                _ = try ProtectedFile.open(bed.path("new"), .readWrite, create: ProtectionClass.none, keybag: keybag)
            }
            if !isNewGeneration { expectError("keybagDamaged") { _ = try ProtectedFile.open(old, keybag: keybag) } }
        }
        #expect(try bed.names() == ["old"])
        try genuine.store(in: bed.bag)
        #expect(try bed.read(old) == [1, 2, 3])
        try bed.make("new", .none)
    }

    @Test("A process that had the genuine one does not take the planted one after it")
    func kept() throws {
        let bed = try FileTestBed(state: .beforeFirstUnlock)
        try bed.make("before", .none)
        try bed.bag.unlock()
        try bed.make("after", .none)
        try Planted(in: bed.bag).store(in: bed.bag)
        expectError("keybagDamaged") { try bed.make("planted", .none) }
    }

    @Test("A process that took it before the first unlock gives it up")
    func keptFromBefore() throws {
        let bed = try FileTestBed(state: .beforeFirstUnlock)
        let genuine = try StoredKeybag(of: bed.bag)
        let planted = try Planted(in: bed.bag)
        try planted.store(in: bed.bag)
        try bed.make("before", .none)
        try genuine.store(in: bed.bag)
        try bed.bag.reopened().unlock(passcode: secret(TestKeybag.passcode))
        try planted.store(in: bed.bag)
        expectError("keybagDamaged") { try bed.make("after", .none) }
    }

    @Test("Before the first unlock it is used, and the next unlock fails: the tests above can fail")
    func beforeFirstUnlock() throws {
        let bed = try FileTestBed(state: .beforeFirstUnlock)
        let planted = try Planted(in: bed.bag)
        try planted.store(in: bed.bag)
        let path = try bed.make("new", .none)
        _ = try planted.key.unwrap(try #require(try StoredWraps(path).records.first).wrapped)
        expectError("wrongPasscode", "another device key makes another key of the passcode") { try bed.bag.unlock() }
        #expect(bed.bag.ringContents == [])
    }

    @Test("With keys that an earlier version loaded, which has put no id there, the device key counts as before")
    func earlierVersion() throws {
        let bed = try FileTestBed(state: .locked)
        let payload = try bed.bag.payload(.firstUnlock)
        let count = payload[1]
        try bed.bag.plant(.firstUnlock, [1, count - 1] + payload[2..<payload.count - 40])
        #expect(try bed.bag.keyID(.completeUntilFirstUserAuthentication) != nil)
        try bed.make("f", .none, [1])
        #expect(try bed.read(bed.path("f")) == [1])
    }

    @Test("A rotation by another process is no plant, before and after it has forgotten")
    func rotated() throws {
        let bed = try FileTestBed()
        let (other, late) = (try bed.bag.reopened(), try bed.bag.reopened())
        let (path, lost) = (try bed.make("f", .none, [1]), try bed.make("lost", .none, [1]))
        try bed.bag.rotate()
        #expect(try ProtectedFile.open(path, keybag: other).bytes(at: 0, count: 1) == [1])
        try bed.keybag.rewrap(fileAt: path)
        try bed.bag.forgetRetired()
        #expect(try ProtectedFile.open(path, keybag: other).bytes(at: 0, count: 1) == [1])
        try ProtectedFile.open(bed.path("g"), .readWrite, create: ProtectionClass.none, keybag: other).close()
        // This one has read the keybag before, and asks the ring only now.
        expectError("keyLost") { _ = try ProtectedFile.open(lost, keybag: late) }
    }

    /// The attacker puts the genuine keybag back in time, and the copy in memory is the planted one.
    @Test("A device key that was planted for a moment is no part of a new passcode, nor of a rotation")
    func passcode() throws {
        let bag = try TestKeybag(state: .unlocked)
        for deed in ["passcode", "rotation"] {
            let genuine = try StoredKeybag(of: bag)
            let planted = try Planted(in: bag)
            let opened = try bag.keybag.open(passcode: secret(TestKeybag.passcode))
            try planted.store(in: bag)
            let copy = try bag.keybag.reload()
            let fromDisk = try bag.keybag.deviceKey().id(for: bag.keybag.uuid)
            let fromOpened = try opened.deviceKey().id(for: bag.keybag.uuid)
            #expect(fromDisk == copy.deviceID && fromOpened != copy.deviceID)
            try genuine.store(in: bag)
            if deed == "passcode" {
                try opened.changePasscode(to: secret(TestKeybag.passcode), iterations: TestKeybag.iterations)
            } else {
                try opened.rotate(passcode: secret(TestKeybag.passcode), iterations: TestKeybag.iterations)
            }
            try bag.keybag.evictEverything()
            try bag.unlock()
            #expect(try bag.keyID(.none) != nil, "\(deed)")
        }
    }
}

/// A keybag's bytes with another class key D, under another device key. Everything that an unlock does not look at is right.
private struct Planted: ~Copyable {
    let key: ClassKey
    private let copy: StoredKeybag

    /// - Parameter isNewGeneration: whether the genuine key is retired, as after a rotation, and not replaced.
    init(in bag: TestKeybag, isNewGeneration: Bool = false) throws {
        let (keybag, place) = (bag.keybag, bag.scratchPath.appending("planted-key"))
        let device = try DeviceKey.random()
        try device.withUnsafeBytes { try place.overwrite(Array($0)) }
        let active = keybag.activeName(.none)
        let name = ClassKeyName(
            keybag: keybag.uuid, protectionClass: .none, generation: active.generation + (isNewGeneration ? 1 : 0))
        let key = try ClassKey.random(name: name)
        var copy = try StoredKeybag(of: bag)
        copy.setPath(Array(place.string.utf8))
        copy.set(try device.id(for: keybag.uuid), at: StoredKeybag.Field.deviceID)
        var entry = copy.entry(.none)
        if isNewGeneration {
            entry = copy.repeatEntry(.none)
            copy.bytes[copy.entry(.none) + 2] = 2
            copy.set(name.generation, at: entry + 4)
        }
        copy.set(try key.id(), at: entry + 8)
        copy.set(try device.wrap(key).bytes, at: entry + 64)
        copy.finish()
        self.copy = copy
        self.key = key
    }

    func store(in bag: TestKeybag) throws { try copy.store(in: bag) }
}
