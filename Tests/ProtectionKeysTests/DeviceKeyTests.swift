import Testing

@testable import ProtectionKeys

@Suite struct DeviceKeyTests {
    static let key = run(from: 0x01)

    @Test func wrappedClassKeyDUnwraps() throws {
        let name = try keyName(.none, generation: 3)
        let device = try DeviceKey(Self.key)
        let wrapped = try device.wrap(ClassKey(name, run(from: 0x41)))
        #expect(wrapped.bytes.count == 40)
        let unwrapped = try device.unwrap(wrapped, as: name)
        #expect(unwrapped.name == name)
        let bytes = unwrapped.readable()
        #expect(bytes == run(from: 0x41))
    }

    @Test func everyFlippedBitIsRefused() throws {
        let name = try keyName(.none)
        let device = try DeviceKey(Self.key)
        for wrapped in everyBitFlipped(in: try device.wrap(ClassKey(name, run(from: 0x41))).bytes) {
            #expect(throws: KeyError.unwrapFailed) { _ = try device.unwrap(WrappedKey(bytes: wrapped), as: name) }
        }
    }

    @Test func anotherDeviceOrKeybagIsRefused() throws {
        let name = try keyName(.none)
        let device = try DeviceKey(Self.key)
        let wrapped = try device.wrap(ClassKey(name, run(from: 0x41)))
        let otherName = try keyName(.none, keybag: 0xA1)
        #expect(throws: KeyError.unwrapFailed) { _ = try device.unwrap(wrapped, as: otherName) }
        let otherDevice = try DeviceKey(run(from: 0x02))
        #expect(throws: KeyError.unwrapFailed) { _ = try otherDevice.unwrap(wrapped, as: name) }
    }

    @Test func idsTellDevicesAndKeybagsApart() throws {
        let keybag = try keyName(.none).keybag
        let device = try DeviceKey(Self.key)
        var ids: Set<[UInt8]> = [try device.id(for: keybag)]
        ids.insert(try device.id(for: keyName(.none, keybag: 0xA1).keybag))
        ids.insert(try DeviceKey(run(from: 0x02)).id(for: keybag))
        #expect(ids.count == 3)
        #expect(ids.allSatisfy { $0.count == 16 })
    }

    @Test func guessTagsTellGuessesDevicesAndKeybagsApart() throws {
        func tag(_ guess: String, keybag: UInt8 = 0xA0, device: UInt8 = 0x01) throws -> UInt16 {
            try PasscodeKEK(
                passcode: SecretBytes(Array(guess.utf8)), salt: run(from: 0xC0), iterations: 1000,
                device: DeviceKey(run(from: device)), keybag: keyName(.none, keybag: keybag).keybag
            ).guessTag
        }
        #expect(try tag("1234") == tag("1234"))
        // 16 bits: the inputs are fixed and known not to collide.
        let tags = [try tag("1234"), try tag("1235"), try tag("1234", keybag: 0xA1), try tag("1234", device: 0x02)]
        #expect(Set(tags).count == 4)
    }

    @Test(arguments: [0, 16, 31, 33, 64])
    func aKeyOfAnotherLengthIsRefused(length: Int) {
        #expect(throws: KeyError.wrongLength(of: "device key", expected: 32, actual: length)) {
            _ = try DeviceKey(run(from: 0, count: length))
        }
    }

    @Test func randomKeysDifferAndAreLentAsTheyAre() throws {
        var keys: Set<[UInt8]> = []
        for _ in 0..<8 { keys.insert(try DeviceKey.random().withUnsafeBytes { Array($0) }) }
        #expect(keys.count == 8)
        let lent = try DeviceKey(Self.key).withUnsafeBytes { Array($0) }
        #expect(lent == Self.key)
    }
}
