import Testing

@testable import ProtectionKeys

@Suite struct KeyWrapTests {
    @Test(arguments: try Vector.all(in: "aes-key-wrap"))
    func unwrapIsThePublishedOne(vector: Vector) throws {
        let kek = try vector.secret("kek")
        let wrapped = WrappedKey(bytes: try vector.bytes("wrapped"))
        try vector.check("key") { try KeyWrap.unwrap(wrapped, under: kek).readable() }
    }

    @Test(arguments: try Vector.all(in: "aes-key-wrap").filter { $0.expect == .success })
    func wrapIsThePublishedOne(vector: Vector) throws {
        let kek = try vector.secret("kek")
        let key = try vector.secret("key")
        try vector.check("wrapped") { try KeyWrap.wrap(key, under: kek).bytes }
    }

    @Test func everyFlippedBitIsRefused() throws {
        let vector = try Vector.named("aes-key-wrap/rfc3394-4.6")
        let kek = try vector.secret("kek")
        let flipped = everyBitFlipped(in: try vector.bytes("wrapped"))
        #expect(flipped.count == 320)
        for wrapped in flipped {
            #expect(throws: KeyError.unwrapFailed) {
                try KeyWrap.unwrap(WrappedKey(bytes: wrapped), under: kek).readable()
            }
        }
    }

    @Test func everyFlippedBitOfTheKEKIsRefused() throws {
        let vector = try Vector.named("aes-key-wrap/rfc3394-4.6")
        let wrapped = WrappedKey(bytes: try vector.bytes("wrapped"))
        for kek in everyBitFlipped(in: try vector.bytes("kek")) {
            let kek = SecretBytes(kek)
            #expect(throws: KeyError.unwrapFailed) { try KeyWrap.unwrap(wrapped, under: kek).readable() }
        }
    }

    @Test(arguments: (0...80).filter { $0 != 40 })
    func everyOtherLengthIsRefused(length: Int) {
        let kek = SecretBytes(run(from: 0))
        #expect(throws: KeyError.wrongLength(of: "wrapped key", expected: 40, actual: length)) {
            try KeyWrap.unwrap(WrappedKey(bytes: run(from: 0, count: length)), under: kek).readable()
        }
    }
}
