import Testing

@testable import ProtectionKeys

@Suite struct ClassBKeyTests {
    static let fileKey = run(from: 0x81)
    static let scalar = run(from: 0x61)

    @Test(arguments: try Vector.all(in: "class-b-wrap"))
    func unwrapIsTheComputedOne(vector: Vector) throws {
        let key = try ClassBPrivateKey(keyName(.completeUnlessOpen), vector.bytes("private key"))
        let publicKey = try vector.bytes("public key")
        #expect(key.publicKey.bytes == publicKey)
        let wrapped = WrappedKey(bytes: try vector.bytes("wrapped"))
        try vector.check("file key") { try key.unwrap(wrapped).readable() }
    }

    @Test func whatThePublicKeyWrapsThePrivateKeyUnwraps() throws {
        let key = try ClassBPrivateKey.random(name: keyName(.completeUnlessOpen))
        let fileKey = try FileKey.random()
        let original = fileKey.readable()
        let wrapped = try key.publicKey.wrap(fileKey)
        #expect(wrapped.bytes.count == 72)
        let unwrapped = try key.unwrap(wrapped).readable()
        #expect(unwrapped == original)
    }

    @Test func everyWrapHasAnEphemeralKeyOfItsOwn() throws {
        let publicKey = try ClassBPrivateKey(keyName(.completeUnlessOpen), Self.scalar).publicKey
        var ephemerals: Set<ArraySlice<UInt8>> = []
        var wraps: Set<ArraySlice<UInt8>> = []
        for _ in 0..<8 {
            let wrapped = try publicKey.wrap(FileKey(Self.fileKey)).bytes
            ephemerals.insert(wrapped[..<32])
            wraps.insert(wrapped[32...])
        }
        #expect(ephemerals.count == 8)
        #expect(wraps.count == 8)
    }

    /// The KEK depends on E and on both public keys, so that not even E's unused top bit can change.
    @Test func everyFlippedBitIsRefused() throws {
        let vector = try Vector.named("class-b-wrap/fixed-ephemeral")
        let key = try ClassBPrivateKey(keyName(.completeUnlessOpen), vector.bytes("private key"))
        let flipped = everyBitFlipped(in: try vector.bytes("wrapped"))
        #expect(flipped.count == 576)
        for wrapped in flipped {
            #expect(throws: KeyError.unwrapFailed) { try key.unwrap(WrappedKey(bytes: wrapped)).readable() }
        }
    }

    @Test(arguments: (0...144).filter { $0 != 72 })
    func everyOtherLengthIsRefused(length: Int) throws {
        let key = try ClassBPrivateKey(keyName(.completeUnlessOpen), Self.scalar)
        #expect(throws: KeyError.wrongLength(of: "wrapped key", expected: 72, actual: length)) {
            try key.unwrap(WrappedKey(bytes: run(from: 0, count: length))).readable()
        }
    }

    @Test func anotherPrivateKeyIsRefused() throws {
        let key = try ClassBPrivateKey(keyName(.completeUnlessOpen), Self.scalar)
        let other = try ClassBPrivateKey(keyName(.completeUnlessOpen), run(from: 0x62))
        let wrapped = try key.publicKey.wrap(FileKey(Self.fileKey))
        #expect(throws: KeyError.unwrapFailed) { try other.unwrap(wrapped).readable() }
    }

    @Test(arguments: try Vector.all(in: "x25519").filter { $0.expect == .unusablePublicKey })
    func nothingIsWrappedForAPublicKeyWithoutAgreement(vector: Vector) throws {
        let publicKey = try ClassBPublicKey(bytes: vector.bytes("public"))
        #expect(throws: KeyError.unusablePublicKey) { try publicKey.wrap(FileKey(Self.fileKey)) }
    }

    @Test(arguments: try Vector.all(in: "x25519").filter { $0.expect == .unusablePublicKey })
    func aWrapWithoutAgreementIsRefused(vector: Vector) throws {
        let key = try ClassBPrivateKey(keyName(.completeUnlessOpen), Self.scalar)
        let good = try key.publicKey.wrap(FileKey(Self.fileKey)).bytes
        let wrapped = WrappedKey(bytes: try vector.bytes("public") + good[32...])
        #expect(throws: KeyError.unusablePublicKey) { try key.unwrap(wrapped).readable() }
    }

    @Test func thePublicKeyBelongsToThePrivateKey() throws {
        let vector = try Vector.named("x25519-pairs/rfc7748-6.1")
        for side in ["alice", "bob"] {
            let key = try ClassBPrivateKey(keyName(.completeUnlessOpen), vector.bytes("\(side) private"))
            let publicKey = try vector.bytes("\(side) public")
            #expect(key.publicKey.bytes == publicKey)
        }
    }

    /// X25519 clamps; what is stored and named stays as it is.
    @Test func aPrivateKeyIsKeptUnclamped() throws {
        let scalar = [UInt8](repeating: 0xFF, count: 32)
        let lent = try ClassBPrivateKey(keyName(.completeUnlessOpen), scalar).readable()
        #expect(lent == scalar)
    }

    @Test func namesOfTheSameBytesHaveDifferentIDs() throws {
        let id = try ClassBPrivateKey(keyName(.completeUnlessOpen), Self.scalar).id()
        let next = try ClassBPrivateKey(keyName(.completeUnlessOpen, generation: 2), Self.scalar).id()
        let elsewhere = try ClassBPrivateKey(keyName(.completeUnlessOpen, keybag: 0xA1), Self.scalar).id()
        #expect(Set([id, next, elsewhere]).count == 3)
    }

    @Test(arguments: [0, 31, 33, 64])
    func keysOfAnotherLengthAreRefused(length: Int) throws {
        let name = try keyName(.completeUnlessOpen)
        #expect(throws: KeyError.wrongLength(of: "class B private key", expected: 32, actual: length)) {
            _ = try ClassBPrivateKey(name, run(from: 0, count: length))
        }
        #expect(throws: KeyError.wrongLength(of: "class B public key", expected: 32, actual: length)) {
            try ClassBPublicKey(bytes: run(from: 0, count: length))
        }
    }

    @Test func randomPairsDiffer() throws {
        let name = try keyName(.completeUnlessOpen)
        var publicKeys: Set<ClassBPublicKey> = []
        for _ in 0..<8 { publicKeys.insert(try ClassBPrivateKey.random(name: name).publicKey) }
        #expect(publicKeys.count == 8)
    }
}
