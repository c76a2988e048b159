import TestVectors
import Testing

@testable import ProtectionFormat
@testable import ProtectionKeys

/// FORMAT.md §2.1: a copy, from its bytes to all class keys.
@Suite struct KeybagVectorTests {
    @Test(arguments: try FormatVector.all(in: "keybag"))
    func copyComesToWhatIsExpected(vector: FormatVector) throws {
        let bytes = try vector.bytes("bytes")
        let outcome = outcome {
            let copy = try KeybagCopy(decoding: bytes)
            let device = try DeviceKey(secret: vector.secret("device key"))
            let isOwn = try device.id(for: copy.uuid) == copy.deviceID
            guard isOwn || vector.has("recovery code") else { throw Refusal("other device") }
            let key = try Self.keybagKey(of: copy, device, vector)
            guard try KeybagCopy.isMACGood(bytes, under: key) else { throw Refusal("damaged keybag mac") }
            for entry in copy.usedEntries { try Self.open(entry, of: copy, key, device, vector) }
            guard vector.isSuccess else { return }
            let fields = vector.names.filter { $0.hasPrefix("class key ") }
            #expect(copy.usedEntries.compactMap { copy.name(of: $0).map(FormatVector.field) }.sorted() == fields)
            #expect(try copy.encoded(under: key) == bytes)
        }
        #expect(outcome == vector.expect)
    }

    private static func keybagKey(
        of copy: KeybagCopy, _ device: borrowing DeviceKey, _ vector: FormatVector
    ) throws -> KeybagKey {
        if vector.has("recovery code") { return try keybagKeyByRecoveryCode(of: copy, vector) }
        let slot = try #require(copy.slot(.passcode))
        let kek = try PasscodeKEK(
            passcode: vector.secret("passcode"), salt: slot.salt, iterations: slot.iterations, device: device,
            keybag: copy.uuid)
        do throws(KeyError) {
            let key = try kek.unwrap(slot.wrapped)
            return key
        } catch {
            throw Refusal("wrong passcode")
        }
    }

    private static func keybagKeyByRecoveryCode(of copy: KeybagCopy, _ vector: FormatVector) throws -> KeybagKey {
        guard let slot = copy.slot(.recoveryCode) else { throw Refusal("no recovery code") }
        guard let code = try? RecoveryCode(reading: vector.secret("recovery code")) else { throw Refusal("typo") }
        let kek = try RecoveryKEK(code: code, salt: slot.salt, iterations: slot.iterations, keybag: copy.uuid)
        guard let key = try? kek.unwrap(slot.wrapped) else { throw Refusal("wrong recovery code") }
        return key
    }

    private static func open(
        _ entry: ClassKeyEntry, of copy: KeybagCopy, _ key: borrowing KeybagKey, _ device: borrowing DeviceKey,
        _ vector: FormatVector
    ) throws {
        let name = try #require(copy.name(of: entry))
        let refusal = Refusal("damaged class key")
        if name.protectionClass == .completeUnlessOpen {
            guard let opened = try? key.unwrapB(entry.wrapped, as: name), try opened.id() == entry.id,
                let half = entry.publicHalf, half.key == opened.publicKey
            else { throw refusal }
            guard vector.isSuccess else { return }
            #expect(opened.withUnsafeBytes { Array($0) } == (try vector.bytes(FormatVector.field(of: name))))
            #expect(try key.wrap(opened) == entry.wrapped)
            guard entry.state == .active else { return }
            let message = ClassKeyEntry.PublicHalf.message(name: name, key: half.key)
            let nameC = try #require(copy.name(of: copy.active(.completeUntilFirstUserAuthentication)))
            let isOwn = try device.id(for: copy.uuid) == copy.deviceID
            #expect(try device.bPublicMACKey(for: copy.uuid).isValid(half.macUnderDevice, for: message) == isOwn)
            let keyC = try ClassKey(name: nameC, secret: vector.secret(FormatVector.field(of: nameC)))
            // A retired C in the fixture: its MAC is under generation 1's key.
            if nameC.generation == 1 { #expect(try keyC.bPublicMACKey().isValid(half.macUnderC, for: message)) }
            return
        }
        guard let opened = try? key.unwrap(entry.wrapped, as: name), try opened.id() == entry.id else { throw refusal }
        if let wrapped = entry.wrappedByDevice, try device.id(for: copy.uuid) == copy.deviceID {
            guard let same = try? device.unwrap(wrapped, as: name), try same.id() == entry.id else { throw refusal }
            #expect(try device.wrap(opened) == wrapped)
        }
        guard vector.isSuccess else { return }
        #expect(opened.withUnsafeBytes { Array($0) } == (try vector.bytes(FormatVector.field(of: name))))
        #expect(try key.wrap(opened) == entry.wrapped)
    }

    @Test func fieldsAreThose() throws {
        let copy = try KeybagCopy(decoding: FormatVector.named("keybag/retired").bytes("bytes"))
        #expect(copy.sequence == 1)
        #expect(copy.devicePath == Array("/nowhere/device-key".utf8))
        #expect(copy.slot(.passcode)?.iterations == 1000)
        #expect(copy.slot(.recoveryCode) == nil)
        #expect(copy.active(.completeUnlessOpen).generation == 2)
        #expect(copy.active(.complete).generation == 1)
        let retired = ClassKeyName(keybag: copy.uuid, protectionClass: .completeUnlessOpen, generation: 1)
        #expect(copy.entry(of: retired)?.state == .retired)
        #expect(copy.entry(of: retired)?.publicHalf?.macUnderC == [UInt8](repeating: 0, count: 32))
        let unknown = ClassKeyName(keybag: copy.uuid, protectionClass: .complete, generation: 2)
        #expect(copy.entry(of: unknown) == nil)
    }

    @Test func reservedKindsAreKeptAndNotUsed() throws {
        let copy = try KeybagCopy(decoding: FormatVector.named("keybag/reserved-kinds").bytes("bytes"))
        #expect(copy.entries.map(\.kind) == [0, 0, 0, 0, 3, 2, 255])
        #expect(copy.fileEntries.count == 4)
        #expect(copy.name(of: copy.entries[4]) == nil)
    }

    @Test(arguments: [0, 63, 64, 127, 128])
    func macOfAShortCopyIsNotGood(count: Int) throws {
        let key = try KeybagKey.random(for: .random())
        #expect(try KeybagCopy.isMACGood([UInt8](repeating: 0, count: count), under: key) == false)
    }
}
