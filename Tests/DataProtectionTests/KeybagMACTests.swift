import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

/// The keyless check is right everywhere here: these are not accidents.
@Suite("A keybag that somebody altered")
struct KeybagMACTests {
    @Test("Without the keybag key: unlocking says damaged and loads nothing", arguments: Forgery.allCases)
    func forged(forgery: Forgery) throws {
        let bag = try TestKeybag()
        var copy = try StoredKeybag(of: bag)
        try forgery.apply(to: &copy, bag)
        copy.finish()
        try copy.store(in: bag)
        expectError("keybagDamaged") { try bag.unlock() }
        #expect(bag.ringContents == [])
        #expect(try bag.file("keybag.0").contents() == copy.bytes, "nothing is written")
    }

    @Test("Without the keybag key, while unlocked: the passcode is not changed", arguments: Forgery.allCases)
    func changePasscode(forgery: Forgery) throws {
        let bag = try TestKeybag(state: .unlocked)
        var copy = try StoredKeybag(of: bag)
        try forgery.apply(to: &copy, bag)
        copy.finish()
        try copy.store(in: bag)
        let error = #expect(throws: DataProtectionError.self) {
            try bag.keybag.changePasscode(
                from: secret(TestKeybag.passcode), to: secret("new"), iterations: TestKeybag.iterations)
        }
        // Under another name or id, the keys in the ring are none of this keybag's any more.
        let isRenamed = [.generation, .classKeyID].contains(forgery)
        #expect(error?.caseName == (isRenamed ? "locked" : "keybagDamaged"))
        for number in [0, 1] { #expect(try bag.file("keybag.\(number)").contents() == copy.bytes) }
    }

    @Test(
        "In the passcode's slot: a wrong passcode is reported, because the two cannot be told apart",
        arguments: [4, 8, 39, 40, 79])
    func slot(offset: Int) throws {
        let bag = try TestKeybag()
        var copy = try StoredKeybag(of: bag)
        copy.bytes[copy.slot(0) + offset] ^= 1  // 4: 1,001 iterations
        copy.finish()
        try copy.store(in: bag)
        expectError("wrongPasscode") { try bag.unlock() }
        #expect(bag.ringContents == [])
    }

    @Test("In the keybag UUID or the device id: another device, and no attempt is counted", arguments: [24, 40])
    func device(offset: Int) throws {
        let bag = try TestKeybag()
        var copy = try StoredKeybag(of: bag)
        copy.bytes[offset] ^= 1
        copy.finish()
        try copy.store(in: bag)
        let keybag = try bag.reopened()
        expectError("otherDevice") { try keybag.unlock(passcode: secret(TestKeybag.passcode)) }
        #expect(try bag.attempts()?.failures == 0)
        #expect(bag.ringContents == [])
    }

    @Test("Under a keybag that is open: one of another UUID is not taken for it")
    func replaced() throws {
        let (bag, other) = (try TestKeybag(), try TestKeybag())
        try StoredKeybag(of: other).store(in: bag)
        let error = #expect(throws: DataProtectionError.self) { try bag.unlock() }
        #expect(error != nil)
        #expect(bag.ringContents == [] && other.ringContents == [])
    }

    @Test("With class key C, as a process of the same user has it while locked: the next unlock loads nothing")
    func forgedWithClassKeyC() throws {
        let bag = try TestKeybag(state: .locked)
        let loaded = try bag.keybag.file.load().copy
        let nameB = loaded.activeName(.completeUnlessOpen)
        let nameC = loaded.activeName(.completeUntilFirstUserAuthentication)
        let payload = try bag.payload(.firstUnlock)
        let bytes = payload.withUnsafeBytes { payload in RingPayload.key(of: nameC, in: payload).map { Array($0) } }
        let c = try ClassKey(name: nameC, secret: secret(try #require(bytes)))
        let planted = try ClassBPrivateKey.random(name: nameB)
        let message = ClassKeyEntry.PublicHalf.message(name: nameB, key: planted.publicKey)
        var copy = try StoredKeybag(of: bag)
        let b = copy.entry(.completeUnlessOpen)
        copy.set(planted.publicKey.bytes, at: b + 104)
        copy.set(try c.bPublicMACKey().tag(of: message), at: b + 136)
        copy.finish()
        try copy.store(in: bag)
        expectError("keybagDamaged") { try bag.unlock() }
        #expect(bag.ringContents == [2])
        #expect(try bag.file("keybag.0").contents() == copy.bytes, "nothing is written")
    }

    @Test(
        "With another public key of class B: no file is made under it, in any lock state",
        arguments: [ProtectionState.unlocked, .locked, .beforeFirstUnlock])
    func plantedPublicKey(state: ProtectionState) throws {
        let bed = try FileTestBed(state: state)
        let planted = try ClassBPrivateKey.random(name: bed.keybag.activeName(.completeUnlessOpen))
        var copy = try StoredKeybag(of: bed.bag)
        copy.set(planted.publicKey.bytes, at: copy.entry(.completeUnlessOpen) + 104)
        copy.finish()
        try copy.store(in: bed.bag)
        expectError("keybagDamaged") {
            _ = try ProtectedFile.create(bed.path("f"), as: .completeUnlessOpen, keybag: bed.keybag)
        }
        #expect(try bed.names() == [])
    }

    @Test("With the keybag key: a class key that is not the one its entry names loads nothing", arguments: Mix.allCases)
    func authenticMix(mix: Mix) throws {
        let bag = try TestKeybag()
        try bag.rewriteAuthentically { copy in mix.apply(to: &copy) }
        expectError("keybagDamaged") { try bag.unlock() }
        #expect(bag.ringContents == [])
    }

    @Test("With the keybag key and nothing changed it opens: the two tests above can fail")
    func authentic() throws {
        let bag = try TestKeybag()
        try bag.rewriteAuthentically { _ in }
        try bag.unlock()
        #expect(try bag.keybag.state() == .unlocked)
    }

    /// What can be changed without being noticed before the MAC is.
    enum Forgery: String, CaseIterable {
        case devicePath, sequence, generation, classKeyID, wrappedA, wrappedB, wrappedC, wrappedD, deviceWrapOfD
        case publicKey, macUnderC, macUnderDevice, furtherEntry, fewerEntries, mac

        func apply(to copy: inout StoredKeybag, _ bag: TestKeybag) throws {
            let (a, b, c, d) = (copy.entry(0), copy.entry(1), copy.entry(2), copy.entry(3))
            switch self {
            case .devicePath:
                // Another path that leads to the same key.
                let moved = bag.deviceKey.removingLastComponent().appending("moved-key!")
                try moved.overwrite(try bag.deviceKey.contents())
                copy.setPath(Array(moved.string.utf8))
            case .sequence: copy.set(UInt64(99), at: StoredKeybag.Field.sequence)
            case .generation: copy.set(UInt32(2), at: a + 4)
            case .classKeyID: copy.bytes[a + 8] ^= 1
            case .wrappedA: copy.bytes[a + 24] ^= 1
            case .wrappedB: copy.bytes[b + 24] ^= 1
            case .wrappedC: copy.bytes[c + 24] ^= 1
            case .wrappedD: copy.bytes[d + 24] ^= 1
            case .deviceWrapOfD: copy.bytes[d + 64] ^= 1
            case .publicKey: copy.bytes[b + 104] ^= 1
            case .macUnderC: copy.bytes[b + 136] ^= 1
            case .macUnderDevice: copy.bytes[b + 168] ^= 1
            case .furtherEntry: copy.addRetired(.complete, 2)
            case .fewerEntries: copy.bytes[copy.repeatEntry(.complete)] = 1
            case .mac: copy.bytes[copy.bytes.count - 64] ^= 1
            }
        }
    }

    /// Keys of the right keybag in the wrong places.
    enum Mix: String, CaseIterable {
        case otherID, wrapOfAnotherClass, wrapOfB, otherPublicKey, otherGeneration, damagedWrap, otherIDOfD

        func apply(to copy: inout StoredKeybag) {
            let (a, b, c, d) = (copy.entry(0), copy.entry(1), copy.entry(2), copy.entry(3))
            switch self {
            case .otherID: copy.bytes[c + 8] ^= 1
            case .wrapOfAnotherClass: copy.set(Array(copy.bytes[c + 24..<c + 64]), at: a + 24)
            case .wrapOfB: copy.set(Array(copy.bytes[a + 24..<a + 64]), at: b + 24)
            case .otherPublicKey: copy.bytes[b + 104] ^= 1
            case .otherGeneration: copy.set(UInt32(2), at: a + 4)
            case .damagedWrap: copy.bytes[c + 24] ^= 1
            case .otherIDOfD: copy.bytes[d + 8] ^= 1
            }
        }
    }
}
