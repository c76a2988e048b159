import ProtectionKeys
import Testing

@Suite struct StoreKeyTests {
    private let place = Array("downloads\0request\0id".utf8)

    private func key(_ byte: UInt8 = 7) throws -> StoreKey {
        try StoreKey(secret: SecretBytes([UInt8](repeating: byte, count: 32)))
    }

    @Test func opensWhatItSealed() throws {
        let key = try key()
        for value in [[], [1], [UInt8](repeating: 9, count: 70_000)] as [[UInt8]] {
            let sealed = try value.withUnsafeBytes { try key.seal($0, at: place) }
            #expect(sealed.count == value.count + StoreKey.overhead)
            #expect(try key.open(sealed, at: place) == value)
            #expect(try key.openSecret(sealed, at: place).count == value.count)
            #expect(try value.withUnsafeBytes { try key.seal($0, at: place) } != sealed)
        }
    }

    /// Salt, nonce, ciphertext, tag, length, place, key: nothing may be another one.
    @Test func refusesEverythingElse() throws {
        let key = try key()
        let sealed = try [1, 2, 3].withUnsafeBytes { try key.seal($0, at: place) }
        for index in sealed.indices {
            var altered = sealed
            altered[index] ^= 1
            #expect(throws: KeyError.authenticationFailed) { try key.open(altered, at: place) }
            #expect(throws: KeyError.authenticationFailed) { try key.open(Array(sealed[..<index]), at: place) }
        }
        #expect(throws: KeyError.authenticationFailed) { try key.open(sealed, at: place + [0]) }
        let other = try self.key(8)
        #expect(throws: KeyError.authenticationFailed) { try other.open(sealed, at: place) }
    }

    @Test(arguments: [0, 31, 33]) func keysHave32Bytes(_ count: Int) {
        #expect(throws: KeyError.wrongLength(of: "store key", expected: 32, actual: count)) {
            _ = try StoreKey(secret: SecretBytes(zeroed: count))
        }
    }
}
