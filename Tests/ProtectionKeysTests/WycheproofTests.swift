import Foundation
import Testing

@testable import ProtectionKeys

/// Project Wycheproof's vectors, made to catch what libraries are known to get wrong. `Wycheproof/README.md` says which.
@Suite struct WycheproofTests {
    private struct File: Decodable {
        let numberOfTests: Int
        let testGroups: [Group]
    }

    private struct Group: Decodable {
        let ivSize, keySize, tagSize: Int?
        let tests: [Test]
    }

    private struct Test: Decodable {
        let tcId: Int
        let comment, result: String
        let key, iv, aad, msg, ct, tag: String?
        let ikm, salt, info, okm, password, dk: String?
        let `public`, `private`, shared: String?
        let size, iterationCount, dkLen: Int?

        var isValid: Bool { result == "valid" }
        /// `acceptable` is for x25519 alone: low-order points and others that RFC 7748 lets a library take.
        var isInvalid: Bool { result == "invalid" }
        var place: Testing.Comment { "tcId \(tcId): \(comment)" }

        func bytes(_ field: KeyPath<Test, String?>) throws -> [UInt8] {
            let text = try #require(self[keyPath: field])
            return try text.isEmpty ? [] : #require(Hexadecimal.bytes(text))
        }
    }

    private func file(_ name: String) throws -> [Group] {
        let url = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("Wycheproof/\(name)_test.json")
        let file = try JSONDecoder().decode(File.self, from: Data(contentsOf: url))
        #expect(file.testGroups.map(\.tests.count).reduce(0, +) == file.numberOfTests)
        return file.testGroups
    }

    /// Keys of 32 bytes, nonces of 12, tags of 16: others are never made, nor read.
    @Testing.Test func aesGCM() throws {
        let groups = try file("aes_gcm").filter { $0.keySize == 256 && $0.ivSize == 96 && $0.tagSize == 128 }
        var counts = (valid: 0, invalid: 0)
        for test in groups.flatMap(\.tests) {
            let (nonce, text, associated) = (try test.bytes(\.iv), try test.bytes(\.msg), try test.bytes(\.aad))
            let sealed = try nonce + test.bytes(\.ct) + test.bytes(\.tag)
            var opener = try Opener(key: SecretBytes(test.bytes(\.key)))
            if test.isValid {
                var sealer = try Sealer(key: SecretBytes(test.bytes(\.key)))
                let again = try sealer.sealed(text, nonce: nonce, associated: associated)
                #expect(again == sealed, test.place)
                let opened = try opener.opened(sealed, associated: associated)
                #expect(opened == text, test.place)
                counts.valid += 1
            } else {
                #expect(throws: KeyError.self, test.place) { try opener.opened(sealed, associated: associated) }
                counts.invalid += 1
            }
        }
        #expect(counts == (39, 27))
    }

    /// Wrapped keys of 40 bytes under keys of 32; of every other length nothing is unwrapped.
    @Testing.Test func aesKeyWrap() throws {
        var counts = (valid: 0, invalid: 0)
        for test in try file("aes_wrap").filter({ $0.keySize == 256 }).flatMap(\.tests) {
            let kek = SecretBytes(try test.bytes(\.key))
            let (key, wrapped) = (try test.bytes(\.msg), WrappedKey(bytes: try test.bytes(\.ct)))
            if test.isValid, key.count == 32 {
                #expect(try KeyWrap.wrap(SecretBytes(key), under: kek) == wrapped, test.place)
                #expect(try KeyWrap.unwrap(wrapped, under: kek).readable() == key, test.place)
                counts.valid += 1
            } else {
                #expect(throws: KeyError.self, test.place) { try KeyWrap.unwrap(wrapped, under: kek).readable() }
                counts.invalid += 1
            }
        }
        #expect(counts == (4, 64))
    }

    /// Valid ones; an output that is too long for RFC 5869 §2.3 is refused.
    @Testing.Test func hkdf() throws {
        var count = 0
        for test in try file("hkdf_sha256").flatMap(\.tests) {
            let (key, salt, info) = (try test.bytes(\.ikm), try test.bytes(\.salt), try test.bytes(\.info))
            var output = [UInt8](repeating: 0, count: try #require(test.size))
            func derive() throws(KeyError) {
                try key.lendBytes { key throws(KeyError) in
                    try salt.lendBytes { salt throws(KeyError) in
                        try output.lendMutableBytes { output throws(KeyError) in
                            try LibCrypto.hkdf(
                                key: key, salt: salt.isEmpty ? nil : salt, info: info, into: output)
                        }
                    }
                }
            }
            if test.isValid {
                try derive()
                #expect(try output == test.bytes(\.okm), test.place)
            } else {
                #expect(throws: KeyError.self, test.place) { try derive() }
            }
            count += 1
        }
        #expect(count == 86)
    }

    /// Whole tags: truncated ones are never made, nor taken.
    @Testing.Test func hmacSHA256() throws {
        var count = 0
        for group in try file("hmac_sha256") where group.tagSize == 256 {
            for test in group.tests {
                let key = MACKey(secret: SecretBytes(try test.bytes(\.key)))
                #expect(try key.isValid(test.bytes(\.tag), for: test.bytes(\.msg)) == test.isValid, test.place)
                count += 1
            }
        }
        #expect(count == 87)
    }

    @Testing.Test func pbkdf2() throws {
        var count = 0
        for test in try file("pbkdf2_hmacsha256").flatMap(\.tests) {
            let output = try PBKDF2.derive(
                SecretBytes(test.bytes(\.password)), salt: test.bytes(\.salt),
                iterations: #require(test.iterationCount), byteCount: #require(test.dkLen)
            ).readable()
            #expect(try (output == test.bytes(\.dk)) == test.isValid, test.place)
            count += 1
        }
        #expect(count == 60)
    }

    /// For RNCryptor. RFC 6070's 16,777,216 rounds, which take ten seconds, are left out.
    @Testing.Test func pbkdf2SHA1() throws {
        var count = 0
        for test in try file("pbkdf2_hmacsha1").flatMap(\.tests) where try #require(test.iterationCount) <= 100_000 {
            let password = SecretBytes(try test.bytes(\.password))
            let output = try password.pbkdf2SHA1(
                prefix: password.count, salt: test.bytes(\.salt), iterations: #require(test.iterationCount),
                byteCount: #require(test.dkLen)
            ).readable()
            #expect(try (output == test.bytes(\.dk)) == test.isValid, test.place)
            count += 1
        }
        #expect(count == 63)
    }

    /// A shared secret of zeros is refused (RFC 7748 §6.1); all else comes out as published, `acceptable` ones too.
    @Testing.Test func x25519() throws {
        let zeros = [UInt8](repeating: 0, count: 32)
        var refused = 0
        for test in try file("x25519").flatMap(\.tests) {
            let (scalar, point, expected) = (
                try test.bytes(\.private), try test.bytes(\.public), try test.bytes(\.shared)
            )
            var shared = zeros
            func agree() throws(KeyError) {
                try scalar.lendBytes { scalar throws(KeyError) in
                    try shared.lendMutableBytes { shared throws(KeyError) in
                        try LibCrypto.x25519(privateKey: scalar, publicKey: point, into: shared)
                    }
                }
            }
            if expected == zeros || test.isInvalid {
                #expect(throws: KeyError.self, test.place) { try agree() }
                refused += 1
            } else {
                try agree()
                #expect(shared == expected, test.place)
            }
        }
        #expect(refused == 31)
    }
}
