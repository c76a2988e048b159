import Testing

@testable import ProtectionKeys

@Suite struct KeybagKeyTests {
    static let key = run(from: 0x21)

    @Test(arguments: [ProtectionClass.complete, .completeUntilFirstUserAuthentication, .none])
    func aWrappedClassKeyUnwraps(protectionClass: ProtectionClass) throws {
        let name = try keyName(protectionClass, generation: 3)
        let keybagKey = KeybagKey(keybag: name.keybag, secret: SecretBytes(Self.key))
        let wrapped = try keybagKey.wrap(ClassKey(name, run(from: 0x41)))
        #expect(wrapped.bytes.count == 40)
        let unwrapped = try keybagKey.unwrap(wrapped, as: name)
        #expect(unwrapped.name == name)
        let bytes = unwrapped.readable()
        #expect(bytes == run(from: 0x41))
    }

    @Test func aWrappedPrivateKeyUnwraps() throws {
        let name = try keyName(.completeUnlessOpen, generation: 3)
        let keybagKey = KeybagKey(keybag: name.keybag, secret: SecretBytes(Self.key))
        let original = try ClassBPrivateKey(name, run(from: 0x61))
        let unwrapped = try keybagKey.unwrapB(keybagKey.wrap(original), as: name)
        #expect(unwrapped.name == name)
        #expect(unwrapped.publicKey == original.publicKey)
        let bytes = unwrapped.readable()
        #expect(bytes == run(from: 0x61))
    }

    @Test func everyFlippedBitIsRefused() throws {
        let name = try keyName(.complete)
        let keybagKey = KeybagKey(keybag: name.keybag, secret: SecretBytes(Self.key))
        for wrapped in everyBitFlipped(in: try keybagKey.wrap(ClassKey(name, run(from: 0x41))).bytes) {
            let wrapped = WrappedKey(bytes: wrapped)
            #expect(throws: KeyError.unwrapFailed) { _ = try keybagKey.unwrap(wrapped, as: name) }
            #expect(throws: KeyError.unwrapFailed) { _ = try keybagKey.unwrapB(wrapped, as: name) }
        }
    }

    @Test(arguments: [0, 32, 39, 41, 72])
    func everyOtherLengthIsRefused(length: Int) throws {
        let name = try keyName(.complete)
        let keybagKey = KeybagKey(keybag: name.keybag, secret: SecretBytes(Self.key))
        let device = try DeviceKey(Self.key)
        let wrapped = WrappedKey(bytes: run(from: 0, count: length))
        let error = KeyError.wrongLength(of: "wrapped key", expected: 40, actual: length)
        #expect(throws: error) { _ = try keybagKey.unwrap(wrapped, as: name) }
        #expect(throws: error) { _ = try keybagKey.unwrapB(wrapped, as: name) }
        #expect(throws: error) { _ = try device.unwrap(wrapped, as: name) }
    }

    @Test func anotherKeybagOrKeybagKeyIsRefused() throws {
        let name = try keyName(.complete)
        let other = try keyName(.complete, keybag: 0xA1)
        let wrapped = try KeybagKey(keybag: name.keybag, secret: SecretBytes(Self.key))
            .wrap(ClassKey(name, run(from: 0x41)))
        let otherKeybag = KeybagKey(keybag: other.keybag, secret: SecretBytes(Self.key))
        #expect(throws: KeyError.unwrapFailed) { _ = try otherKeybag.unwrap(wrapped, as: other) }
        let otherKey = KeybagKey(keybag: name.keybag, secret: SecretBytes(run(from: 0x22)))
        #expect(throws: KeyError.unwrapFailed) { _ = try otherKey.unwrap(wrapped, as: name) }
    }

    @Test func randomKeysDiffer() throws {
        let keybag = try keyName(.complete).keybag
        var tags: Set<[UInt8]> = []
        for _ in 0..<8 {
            let key = try KeybagKey.random(for: keybag)
            #expect(key.keybag == keybag)
            tags.insert(try key.macKey().tag(of: []))
        }
        #expect(tags.count == 8)
    }
}
