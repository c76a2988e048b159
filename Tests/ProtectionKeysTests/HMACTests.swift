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

    @Test(arguments: try Vector.all(in: "hmac").filter { $0.expect == .success })
    func sha512TagIsThePublishedOne(vector: Vector) throws {
        let key = try vector.bytes("key")
        let message = try vector.bytes("message")
        var tag = [UInt8](repeating: 0, count: 64)
        try key.lendBytes { key throws(KeyError) in
            try message.lendBytes { message throws(KeyError) in
                try tag.lendMutableBytes { tag throws(KeyError) in
                    try LibCrypto.hmacSHA512(key: key, message, into: tag)
                }
            }
        }
        #expect(Array(tag.prefix(try truncation(of: vector))) == (try vector.bytes("hmac-sha-512")))
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

    @Test func maskOfAClassKeyIsHMACSHA512() throws {
        let name = try keyName(.complete)
        let key = try ClassKey(name, run(from: 0x41))
        let message = run(from: 0x00, count: 40)
        var expected = [UInt8](repeating: 0, count: 64)
        try run(from: 0x41).lendBytes { key throws(KeyError) in
            try message.lendBytes { message throws(KeyError) in
                try expected.lendMutableBytes { tag throws(KeyError) in
                    try LibCrypto.hmacSHA512(key: key, message, into: tag)
                }
            }
        }
        let mask = try key.mask(message).readable()
        #expect(mask == expected)
    }

    /// How many bytes of the tag the scenario shows; 64 where it shows all of it.
    private func truncation(of vector: Vector) throws -> Int {
        vector.has("truncated to") ? try vector.number("truncated to") : 64
    }
}
