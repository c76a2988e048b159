import Testing

@testable import ProtectionKeys

@Suite struct PasscodeKEKTests {
    /// What a passcode key is made of; one of them differs in each test.
    struct Slot {
        var passcode = Array("correct horse".utf8)
        var salt = run(from: 0xC0)
        var iterations = 1000
        var device = run(from: 0x01)
        var keybag = run(from: 0xA0, count: 16)

        func kek() throws -> PasscodeKEK {
            try PasscodeKEK(
                passcode: SecretBytes(passcode), salt: salt, iterations: iterations, device: DeviceKey(device),
                keybag: KeybagUUID(bytes: keybag))
        }

        func wrapped() throws -> WrappedKey {
            try kek().wrap(KeybagKey(keybag: KeybagUUID(bytes: keybag), secret: SecretBytes(run(from: 0x21))))
        }
    }

    @Test(arguments: [1, 64, 65, 1024])
    func theSamePasscodeUnwraps(length: Int) throws {
        let slot = Slot(passcode: run(from: 0x30, count: length))
        let unwrapped = try slot.kek().unwrap(slot.wrapped())
        #expect(unwrapped.keybag.bytes == slot.keybag)
        let original = KeybagKey(keybag: unwrapped.keybag, secret: SecretBytes(run(from: 0x21)))
        let tags = [try unwrapped.macKey().tag(of: []), try original.macKey().tag(of: [])]
        #expect(tags[0] == tags[1])
    }

    @Test(arguments: [
        Slot(passcode: Array("Correct horse".utf8)), Slot(passcode: Array("correct horse ".utf8)),
        Slot(passcode: Array("correct hors".utf8)), Slot(salt: run(from: 0xC1)), Slot(iterations: 1001),
        Slot(device: run(from: 0x02)), Slot(keybag: run(from: 0xA1, count: 16)),
    ])
    func anythingElseDoesNot(other: Slot) throws {
        let wrapped = try Slot().wrapped()
        let kek = try other.kek()
        #expect(throws: KeyError.unwrapFailed) { _ = try kek.unwrap(wrapped) }
    }

    @Test func everyFlippedBitIsRefused() throws {
        let slot = Slot()
        let kek = try slot.kek()
        for wrapped in everyBitFlipped(in: try slot.wrapped().bytes) {
            #expect(throws: KeyError.unwrapFailed) { _ = try kek.unwrap(WrappedKey(bytes: wrapped)) }
        }
    }

    @Test(arguments: [0, 32, 39, 41, 72])
    func everyOtherLengthIsRefused(length: Int) throws {
        let kek = try Slot().kek()
        #expect(throws: KeyError.wrongLength(of: "wrapped key", expected: 40, actual: length)) {
            _ = try kek.unwrap(WrappedKey(bytes: run(from: 0, count: length)))
        }
    }
}
