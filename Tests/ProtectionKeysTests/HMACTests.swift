import Testing

@testable import ProtectionKeys

@Suite struct HMACTests {
    @Test(arguments: try Vector.all(in: "hmac"))
    func sha256TagIsThePublishedOne(vector: Vector) throws {
        let key = MACKey(secret: try vector.secret("key"))
        let tag = try key.tag(of: vector.bytes("message"))
        let expected = try vector.bytes("hmac-sha-256")
        #expect((Array(tag.prefix(try truncation(of: vector))) == expected) == (vector.expect == .success))
    }

    @Test(arguments: try Vector.all(in: "hmac"))
    func onlyTheWholeTagIsValid(vector: Vector) throws {
        let key = MACKey(secret: try vector.secret("key"))
        let isValid = try key.isValid(vector.bytes("hmac-sha-256"), for: vector.bytes("message"))
        let isWhole = try truncation(of: vector) == 64
        #expect(isValid == (vector.expect == .success && isWhole))
    }

    @Test func everyFlippedBitOfATagIsInvalid() throws {
        let vector = try Vector.named("hmac/rfc4231-case-1")
        let key = MACKey(secret: try vector.secret("key"))
        let message = try vector.bytes("message")
        for tag in everyBitFlipped(in: try vector.bytes("hmac-sha-256")) {
            let isValid = try key.isValid(tag, for: message)
            #expect(!isValid)
        }
    }

    @Test func emptyMessageHasATag() throws {
        // HMAC-SHA256 of nothing under 32 zero bytes; a key of zeros is the empty key, padded.
        let key = MACKey(secret: SecretBytes(zeroed: 32))
        let tag = try key.tag(of: [])
        #expect(tag.starts(with: [0xB6, 0x13, 0x67, 0x9A, 0x08, 0x14, 0xD9, 0xEC]))
    }

    /// SHA-512(00000001 ‖ 41…60 ‖ 00…27), computed with Python's hashlib.
    @Test func maskOfAClassKeyIsOneStepSHA512() throws {
        let key = try ClassKey(try keyName(.complete), run(from: 0x41))
        let mask = try key.mask(run(from: 0x00, count: 40)).readable()
        let expected =
            "bcf44859d68080741a45b57e89b3e174ba2b0562080bf9416e9e3f88ec9cdb85"
            + "296abfabc036ac1eed724620cfb23fbd113fa42481123b0e0ec981f37c34c2d2"
        #expect(mask.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() == expected)
    }

    /// How many bytes of the tag the scenario shows; 64 where it shows all of it.
    private func truncation(of vector: Vector) throws -> Int {
        vector.has("truncated to") ? try vector.number("truncated to") : 64
    }
}
