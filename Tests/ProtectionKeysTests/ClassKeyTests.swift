import Testing

@testable import ProtectionKeys

@Suite struct ClassKeyTests {
    static let fileKey = run(from: 0x81)
    static let classKey = run(from: 0x41)

    @Test(arguments: try Vector.all(in: "file-key-wrap"))
    func unwrapIsTheComputedOne(vector: Vector) throws {
        let key = try ClassKey(vector.classKeyName(), vector.bytes("class key"))
        let wrapped = WrappedKey(bytes: try vector.bytes("wrapped"))
        try vector.check("file key") { try key.unwrap(wrapped).readable() }
    }

    @Test(arguments: try Vector.all(in: "file-key-wrap").filter { $0.expect == .success })
    func wrapIsTheComputedOne(vector: Vector) throws {
        let key = try ClassKey(vector.classKeyName(), vector.bytes("class key"))
        let fileKey = FileKey(try vector.bytes("file key"))
        try vector.check("wrapped") { try key.wrap(fileKey).bytes }
    }

    @Test(arguments: [ProtectionClass.complete, .completeUntilFirstUserAuthentication, .none])
    func whatIsWrappedUnwraps(protectionClass: ProtectionClass) throws {
        let key = try ClassKey.random(name: keyName(protectionClass))
        let fileKey = try FileKey.random()
        let original = fileKey.readable()
        let wrapped = try key.wrap(fileKey)
        #expect(wrapped.bytes.count == 40)
        let unwrapped = try key.unwrap(wrapped).readable()
        #expect(unwrapped == original)
    }

    @Test func everyFlippedBitIsRefused() throws {
        let key = try ClassKey(keyName(.complete), Self.classKey)
        for wrapped in everyBitFlipped(in: try key.wrap(FileKey(Self.fileKey)).bytes) {
            #expect(throws: KeyError.unwrapFailed) { try key.unwrap(WrappedKey(bytes: wrapped)).readable() }
        }
    }

    @Test(arguments: (0...80).filter { $0 != 40 })
    func everyOtherLengthIsRefused(length: Int) throws {
        let key = try ClassKey(keyName(.complete), Self.classKey)
        #expect(throws: KeyError.wrongLength(of: "wrapped key", expected: 40, actual: length)) {
            try key.unwrap(WrappedKey(bytes: run(from: 0, count: length))).readable()
        }
    }

    /// The same 32 bytes under another name are another key.
    @Test func anotherClassGenerationOrKeybagIsRefused() throws {
        let wrapped = try ClassKey(keyName(.complete), Self.classKey).wrap(FileKey(Self.fileKey))
        for other in [
            try keyName(.completeUnlessOpen), try keyName(.completeUntilFirstUserAuthentication), try keyName(.none),
            try keyName(.complete, generation: 0), try keyName(.complete, generation: 2),
            try keyName(.complete, generation: 0x0100_0000), try keyName(.complete, keybag: 0xA1),
        ] {
            let key = try ClassKey(other, Self.classKey)
            #expect(throws: KeyError.unwrapFailed, "\(other)") { try key.unwrap(wrapped).readable() }
        }
    }

    @Test func namesOfTheSameBytesHaveDifferentIDs() throws {
        var ids: Set<[UInt8]> = []
        for name in [
            try keyName(.complete), try keyName(.none), try keyName(.complete, generation: 2),
            try keyName(.complete, generation: 0x0100_0000), try keyName(.complete, keybag: 0xA1),
        ] {
            ids.insert(try ClassKey(name, Self.classKey).id())
        }
        #expect(ids.count == 5)
    }

    @Test(arguments: [0, 16, 31, 33, 64])
    func aKeyOfAnotherLengthIsRefused(length: Int) throws {
        let name = try keyName(.complete)
        #expect(throws: KeyError.wrongLength(of: "class key", expected: 32, actual: length)) {
            _ = try ClassKey(name, run(from: 0, count: length))
        }
    }

    @Test func randomKeysDiffer() throws {
        let name = try keyName(.complete)
        var ids: Set<[UInt8]> = []
        for _ in 0..<8 { ids.insert(try ClassKey.random(name: name).id()) }
        #expect(ids.count == 8)
    }

    @Test func lendsTheBytesItTook() throws {
        let lent = try ClassKey(keyName(.complete), Self.classKey).readable()
        #expect(lent == Self.classKey)
    }
}
