import Testing

@testable import ProtectionKeys

@Suite struct HKDFTests {
    @Test(arguments: try Vector.all(in: "hkdf"))
    func outputIsThePublishedOne(vector: Vector) throws {
        try vector.check("output") {
            try output(of: vector, salt: vector.has("salt") ? vector.bytes("salt") : nil)
        }
    }

    /// FORMAT.md §1: without a salt it is 32 zero bytes.
    @Test func noSaltIsThirtyTwoZeroBytes() throws {
        let vector = try Vector.named("hkdf/rfc5869-a3")
        try vector.check("output") { try output(of: vector, salt: [UInt8](repeating: 0, count: 32)) }
    }

    private func output(of vector: Vector, salt: [UInt8]?) throws -> [UInt8] {
        let key = try vector.bytes("key")
        let info = try vector.bytes("info")
        var output = [UInt8](repeating: 0, count: try vector.bytes("output").count)
        try key.lendBytes { key throws(KeyError) in
            try output.lendMutableBytes { output throws(KeyError) in
                guard let salt else { return try LibCrypto.hkdf(key: key, salt: nil, info: info, into: output) }
                try salt.lendBytes { salt throws(KeyError) in
                    try LibCrypto.hkdf(key: key, salt: salt, info: info, into: output)
                }
            }
        }
        return output
    }
}
