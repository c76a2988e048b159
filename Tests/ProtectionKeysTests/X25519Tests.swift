import Testing

@testable import ProtectionKeys

@Suite struct X25519Tests {
    @Test(arguments: try Vector.all(in: "x25519"))
    func sharedSecretIsThePublishedOne(vector: Vector) throws {
        let scalar = try vector.bytes("scalar")
        let publicKey = try vector.bytes("public")
        try vector.check("shared") { try x25519(scalar, publicKey) }
    }

    @Test(arguments: try Vector.all(in: "x25519-iterated"))
    func iteratedResultIsThePublishedOne(vector: Vector) throws {
        var scalar = try vector.bytes("start")
        var point = scalar
        for _ in 0..<(try vector.number("iterations")) { (scalar, point) = (try x25519(scalar, point), scalar) }
        try vector.check("result") { scalar }
    }

    @Test(arguments: try Vector.all(in: "x25519-pairs"))
    func bothSidesComeToTheSameSecret(vector: Vector) throws {
        for (own, other) in [("alice", "bob"), ("bob", "alice")] {
            let scalar = try vector.bytes("\(own) private")
            let publicKey = try scalar.lendBytes { scalar throws(KeyError) in
                try LibCrypto.x25519PublicKey(of: scalar)
            }
            let published = try vector.bytes("\(own) public")
            #expect(publicKey == published)
            let otherPublic = try vector.bytes("\(other) public")
            try vector.check("shared") { try x25519(scalar, otherPublic) }
        }
    }

    /// RFC 7748 §5 clears the lowest three bits and the highest one, and sets the second highest.
    @Test func bitsThatClampingSetsDoNotMatter() throws {
        let vector = try Vector.named("x25519/rfc7748-5.2-first")
        var scalar = try vector.bytes("scalar")
        scalar[0] ^= 0b0000_0111
        scalar[31] ^= 0b1100_0000
        let publicKey = try vector.bytes("public")
        try vector.check("shared") { try x25519(scalar, publicKey) }
    }

    private func x25519(_ scalar: [UInt8], _ publicKey: [UInt8]) throws -> [UInt8] {
        var shared = [UInt8](repeating: 0, count: 32)
        try scalar.lendBytes { scalar throws(KeyError) in
            try shared.lendMutableBytes { shared throws(KeyError) in
                try LibCrypto.x25519(privateKey: scalar, publicKey: publicKey, into: shared)
            }
        }
        return shared
    }
}
