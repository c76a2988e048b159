import ProtectionKeys
import Testing

@testable import RNCryptorFormat

@Suite struct RoundTripTests {
    private static let edges: [Int] = [1 << 16, RNCryptorOpener.longestPiece, 1 << 20]
    private static let sizes: [Int] =
        [0, 1, 15, 16, 17, 31, 32, 33, 4095, 4096, 4097]
        + edges.flatMap { edge in [-17, -16, -1, 0, 1, 16].map { edge + $0 } }

    @Test(arguments: sizes)
    func everySizeComesBack(size: Int) throws {
        let text = pattern(size)
        let message = try sealed(text, with: .anyKeys())
        // 16 bytes of padding at most, and one at least.
        #expect(message.count == 18 + (size / 16 + 1) * 16 + 32)
        #expect(try opened(message, with: .anyKeys()) == text)
    }

    @Test(arguments: [[1], [15], [16], [17], [31, 1, 33], [65_537], [3, 70_000, 16]])
    func piecesMakeNoDifference(pieces: [Int]) throws {
        let text = pattern(150_001)
        let header = RNCryptorHeader(kind: .keys, encryptionSalt: [], macSalt: [], initial: pattern(16))
        let whole = try text.lendBytes { text throws(RNCryptorError) in
            try RNCryptor.seal(text, RNCryptorSealer(secret(), header))
        }
        #expect(try sealed(text, RNCryptorSealer(secret(), header), pieces: pieces) == whole)
        let opener = try verified(whole, with: secret(), pieces: pieces)
        #expect(try RNCryptorFormatTests.text(of: whole, opener) == text)
    }

    private func secret() throws(RNCryptorError) -> RNCryptorSecret {
        try RNCryptorSecret(keys: SecretBytes((100..<164).map { UInt8($0) }))
    }

    @Test func everyMessageIsAnother() throws {
        let text = pattern(100)
        for secret in 0..<2 {
            let messages = try (0..<8).map { _ in
                try sealed(text, with: secret == 0 ? .anyKeys() : .password("same"))
            }
            // Initial value, salts, and so everything behind them.
            #expect(Set(messages.map { Array($0[2..<18]) }).count == 8)
            #expect(Set(messages.map { Array($0.suffix(32)) }).count == 8)
        }
    }

    /// HMAC hashes keys of more than 64 bytes first; not one byte is left out before that.
    @Test(arguments: [1, 63, 64, 65, 1000, 1 << 20])
    func everyByteOfAPasswordCounts(length: Int) throws {
        let password = pattern(length)
        let message = try sealed([1, 2, 3], with: RNCryptorSecret(password: SecretBytes(password)))
        #expect(try opened(message, with: RNCryptorSecret(password: SecretBytes(password))) == [1, 2, 3])
        for index in Set([0, length / 2, length - 1]) {
            var other = password
            other[index] ^= 1
            #expect(throws: RNCryptorError.wrongPasswordOrAltered) {
                try opened(message, with: RNCryptorSecret(password: SecretBytes(other)))
            }
        }
        #expect(throws: RNCryptorError.wrongPasswordOrAltered) {
            try opened(message, with: RNCryptorSecret(password: SecretBytes(password + [0x31])))
        }
        // A password's own property in HMAC: zeros behind a short one change nothing. RFC 2104 §3.
        if length >= 64 {
            #expect(throws: RNCryptorError.wrongPasswordOrAltered) {
                try opened(message, with: RNCryptorSecret(password: SecretBytes(password + [0])))
            }
        }
    }

    @Test func passwordsThatAreNone() {
        #expect(throws: RNCryptorError.emptyPassword) { _ = try RNCryptorSecret(password: SecretBytes(zeroed: 0)) }
        #expect(throws: RNCryptorError.passwordTooLong(limit: 2_147_483_647)) {
            try RNCryptorSecret.refuse(passwordOf: 1 << 31)
        }
        #expect(throws: Never.self) { try RNCryptorSecret.refuse(passwordOf: 1 << 31 - 1) }
        for length in [0, 32, 63, 65, 128] {
            #expect(throws: RNCryptorError.wrongKeyLength(length: length)) {
                _ = try RNCryptorSecret(keys: SecretBytes(zeroed: length))
            }
        }
    }

    /// Bytes that are no UTF-8 are a password too.
    @Test func passwordsAreBytes() throws {
        let password: [UInt8] = [0xFF, 0x00, 0x0A, 0xC3]
        let message = try sealed([9], with: RNCryptorSecret(password: SecretBytes(password)))
        #expect(try opened(message, with: RNCryptorSecret(password: SecretBytes(password))) == [9])
    }
}
