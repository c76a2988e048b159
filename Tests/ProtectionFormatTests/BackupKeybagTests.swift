import Testing

@testable import ProtectionFormat
@testable import ProtectionKeys

/// FORMAT.md §2.16: the class keys of a backup.
@Suite struct BackupKeybagTests {
    private static let uuid = try! KeybagUUID(bytes: (0xA0..<0xB0).map { UInt8($0) })

    private static func entry(_ protectionClass: ProtectionClass, _ generation: UInt32, id: UInt8) -> BackupEntry {
        let name = ClassKeyName(keybag: uuid, protectionClass: protectionClass, generation: generation)
        let wrapped = WrappedKey(bytes: [UInt8](repeating: id, count: 40))
        return BackupEntry(
            ClassKeyEntry(name: name, state: .active, id: [UInt8](repeating: id, count: 16), wrapped: wrapped),
            wrapped: wrapped)
    }

    private static func keybag(
        iterations: Int = 1_000, made: UInt64 = 1_700_000_000, _ entries: [BackupEntry]
    ) -> BackupKeybag {
        BackupKeybag(
            uuid: uuid, made: made, iterations: iterations, salt: [UInt8](repeating: 0x5A, count: 32),
            wrapped: WrappedKey(bytes: [UInt8](repeating: 0xA5, count: 40)), entries: entries)
    }

    private static let four = [
        entry(.complete, 1, id: 1), entry(.completeUnlessOpen, 1, id: 2),
        entry(.completeUntilFirstUserAuthentication, 1, id: 3), entry(.none, 1, id: 4),
    ]

    private static func key() -> BackupKey {
        BackupKey(keybag: uuid, secret: SecretBytes([UInt8](repeating: 0x31, count: 32)))
    }

    private func stored(_ entries: [BackupEntry] = four) throws -> [UInt8] {
        try Self.keybag(entries).encoded(under: Self.key())
    }

    /// What reading comes to, with the MAC.
    private func outcome(of bytes: [UInt8]) -> String {
        ProtectionFormatTests.outcome {
            _ = try BackupKeybag(decoding: bytes)
            guard try BackupKeybag.isMACGood(bytes, under: Self.key()) else { throw Refusal("mac") }
        }
    }

    /// The stored bytes with `byte` at an offset, and the keyless check made anew.
    private func altered(_ offset: Int, _ bytes: [UInt8]) throws -> [UInt8] {
        var stored = try stored()
        stored.replaceSubrange(offset..<offset + bytes.count, with: bytes)
        return try checkedAnew(stored)
    }

    @Test func whatDecodesEncodesToTheSameBytes() throws {
        let bytes = try stored()
        #expect(bytes.count == 128 + 4 * 64 + 64)
        let decoded = try BackupKeybag(decoding: bytes)
        #expect(decoded == Self.keybag(Self.four))
        #expect(try decoded.encoded(under: Self.key()) == bytes)
        #expect(outcome(of: bytes) == "success")
    }

    @Test func fieldsAreWhereTheTableSays() throws {
        let bytes = try stored()
        #expect(Array(bytes[..<8]) == Array("PFSBACKP".utf8))
        #expect(Array(bytes[8..<16]) == [1, 0, 0, 0, 0xC0, 1, 0, 0])
        #expect(Array(bytes[16..<32]) == Self.uuid.bytes)
        #expect(bytes[40] == 1 && bytes[42] == 4 && bytes[43] == 0)
        #expect(Array(bytes[44..<48]) == [0xE8, 3, 0, 0])
        #expect(bytes[48..<80].allSatisfy { $0 == 0x5A } && bytes[80..<120].allSatisfy { $0 == 0xA5 })
        #expect(Array(bytes[192..<200]) == [0, 2, 0, 0, 1, 0, 0, 0], "the second entry: class B")
    }

    /// With the keyless check as it was, and made anew: then the MAC refuses, if nothing did before.
    @Test func everyByteCounts() throws {
        let bytes = try stored()
        for index in bytes.indices {
            var flipped = bytes
            flipped[index] ^= 0x10
            #expect(outcome(of: flipped) == "damaged backup keybag", "byte \(index)")
            guard index < bytes.count - 32 else { continue }
            #expect(try outcome(of: checkedAnew(flipped)) != "success", "byte \(index), check made anew")
        }
    }

    @Test func everyLengthIsRefusedButTheRightOne() throws {
        let bytes = try stored()
        for length in 0..<bytes.count { #expect(outcome(of: Array(bytes[..<length])) == "damaged backup keybag") }
        #expect(outcome(of: bytes + [0]) == "damaged backup keybag")
        #expect(outcome(of: BackupKeybag.magic + [UInt8](repeating: 0, count: 70_000)) == "damaged backup keybag")
    }

    @Test(
        arguments: [
            (8, [2, 0], "unsupported"), (10, [1], "unsupported"), (40, [2], "unsupported"),
            (41, [1], "damaged backup keybag"),
            (39, [0x80], "damaged backup keybag"), (42, [0, 0], "damaged backup keybag"),
            (42, [5, 0], "damaged backup keybag"),
            (42, [0xE9, 3], "damaged backup keybag"), (120, [1], "damaged backup keybag"),
            (44, [0xE7, 3, 0, 0], "damaged backup keybag"), (44, [0x01, 0xE1, 0xF5, 0x05], "damaged backup keybag"),
            (44, [0, 0, 0, 0], "damaged backup keybag"), (44, [0x00, 0xE1, 0xF5, 0x05], "mac"),
            (129, [5], "unsupported"), (129, [0], "unsupported"), (130, [1], "damaged backup keybag"),
            (132, [0, 0, 0, 0], "damaged backup keybag"), (128, [9], "mac"),
        ] as [(Int, [UInt8], String)])
    func rulesOfTheTable(offset: Int, bytes: [UInt8], answer: String) throws {
        #expect(try outcome(of: altered(offset, bytes)) == answer)
    }

    @Test func oneKeyTwiceIsRefusedAndTwoOfOneNameAreNot() throws {
        let twice = try stored([Self.four[0], Self.four[0]])
        #expect(outcome(of: twice) == "damaged backup keybag")
        let other = Self.entry(.complete, 1, id: 9)
        let both = try BackupKeybag(decoding: stored([Self.four[0], other]))
        let name = ClassKeyName(keybag: Self.uuid, protectionClass: .complete, generation: 1)
        #expect(both.entries(of: name) == [Self.four[0], other])
        let elsewhere = ClassKeyName(keybag: try .random(), protectionClass: .complete, generation: 1)
        #expect(both.entries(of: elsewhere).isEmpty)
    }

    @Test func asManyEntriesAsThereMayBe() throws {
        let entries = (1...UInt32(BackupKeybag.maximumEntryCount)).map { Self.entry(.complete, $0, id: 1) }
        let bytes = try stored(entries)
        #expect(bytes.count == BackupKeybag.maximumLength)
        #expect(try BackupKeybag(decoding: bytes).entries == entries)
    }

    @Test func aKeyIsHeldByItsIDNotByItsNumberAlone() throws {
        let keybag = Self.keybag(Self.four)
        let name = ClassKeyName(keybag: Self.uuid, protectionClass: .complete, generation: 1)
        func entry(_ id: UInt8) -> ClassKeyEntry {
            ClassKeyEntry(
                name: name, state: .retired, id: [UInt8](repeating: id, count: 16), wrapped: WrappedKey(bytes: []))
        }
        #expect(keybag.holds(entry(1)))
        #expect(!keybag.holds(entry(2)))
    }

    @Test func anotherKeyHasAnotherMAC() throws {
        let other = try BackupKey.random(for: Self.uuid)
        #expect(try BackupKeybag.isMACGood(stored(), under: other) == false)
        #expect(try BackupKeybag.isMACGood([UInt8](repeating: 0, count: 64), under: other) == false)
    }
}
