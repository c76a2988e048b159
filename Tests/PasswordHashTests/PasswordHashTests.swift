import ProtectionKeys
import Testing

@testable import PasswordHash

@Suite("A hash of a password")
struct PasswordHashTests {
    @Test("It verifies its password, and no other")
    func verifies() throws {
        let hash = try PasswordHash.hash(SecretBytes("correct horse"), iterations: .fewest)
        #expect(try hash.verify(SecretBytes("correct horse")))
        for other in ["correct hors", "correct horse ", "Correct horse", "c"] {
            #expect(try !hash.verify(SecretBytes(other)), "\(other)")
        }
    }

    @Test("Each has a salt of its own, of 16 bytes, and so another digest")
    func salts() throws {
        var salts: Set<Substring> = []
        var digests: Set<Substring> = []
        for _ in 0..<20 {
            let fields = try PasswordHash.hash(SecretBytes("x"), iterations: .fewest).encoded.split(separator: "$")
            #expect(Base64.decodeUnpadded(String(fields[2]))?.count == 16)
            salts.insert(fields[2])
            digests.insert(fields[3])
        }
        #expect(salts.count == 20 && digests.count == 20)
    }

    @Test("A password is 1 to 1,024 bytes without a zero byte, never cut off; the same in hash, verify and clientKey")
    func rules() throws {
        let hash = try PasswordHash.hash(SecretBytes([0xFF]), iterations: .fewest)
        let parameters = ClientKeyParameters(iterations: .fewest)
        let unusable: [([UInt8], PasswordError.PasswordFault)] = [
            ([], .empty), ([UInt8](repeating: 1, count: 1025), .tooLong(count: 1025, limit: 1024)),
            ([0], .hasZeroByte), ([0x61, 0], .hasZeroByte), ([0, 0x61], .hasZeroByte),
        ]
        for (password, fault) in unusable {
            let expected = PasswordError.unusablePassword(fault)
            #expect(error { _ = try PasswordHash.hash(SecretBytes(password), iterations: .fewest) } == expected)
            #expect(error { _ = try hash.verify(SecretBytes(password)) } == expected)
            #expect(
                error {
                    _ = try PasswordHash.clientKey(
                        password: SecretBytes(password), site: "a", userID: "b", parameters: parameters)
                } == expected)
        }
        var longest = [UInt8](repeating: 1, count: 1024)
        let ofLongest = try PasswordHash.hash(SecretBytes(longest), iterations: .fewest)
        #expect(try ofLongest.verify(SecretBytes(longest)))
        #expect(try !ofLongest.verify(SecretBytes(longest.dropLast())))
        longest[1023] = 2
        #expect(try !ofLongest.verify(SecretBytes(longest)))
    }

    @Test("Without a given number it costs 600,000 iterations or more")
    func calibrated() throws {
        let hash = try PasswordHash.hash(SecretBytes("x"))
        #expect(hash.iterations >= .recommended)
        #expect(hash.encoded.hasPrefix("$pbkdf2-sha256$i=\(hash.iterations.count),l=32$"))
        #expect(try hash.verify(SecretBytes("x")))
    }

    @Test("A decoy verifies nothing, costs what is asked, and is none that could be told from others")
    func decoy() throws {
        let decoy = try PasswordHash.decoy(iterations: .fewest)
        #expect(decoy.iterations == .fewest)
        for password in ["x", "", "password", "decoy"] where !password.isEmpty {
            #expect(try !decoy.verify(SecretBytes(password)))
        }
        let real = try PasswordHash.hash(SecretBytes("x"), iterations: .fewest)
        #expect(decoy.encoded.utf8.count == real.encoded.utf8.count)
        #expect(try PasswordHash(encoded: decoy.encoded).iterations == .fewest)
        #expect(try PasswordHash.decoy(iterations: .fewest).encoded != decoy.encoded)
        // It refuses what a real one refuses, in the same way.
        #expect(error { _ = try decoy.verify(SecretBytes("")) } == .unusablePassword(.empty))
    }

    @Test("It needs a rehash when it has fewer iterations than are wanted, and not at that number")
    func needsRehash() throws {
        let hash = try PasswordHash.decoy(iterations: Iterations(599_999))
        #expect(hash.needsRehash())
        #expect(!hash.needsRehash(least: try Iterations(599_999)))
        #expect(try !PasswordHash.decoy(iterations: .recommended).needsRehash())
        #expect(try PasswordHash.decoy(iterations: .recommended).needsRehash(least: Iterations(600_001)))
    }

    @Test("An altered byte of the string never verifies")
    func altered() throws {
        let text = Array(try PasswordHash.hash(SecretBytes("x"), iterations: Iterations(10_001)).encoded.utf8)
        for index in text.indices {
            var other = text
            other[index] = other[index] == UInt8(ascii: "1") ? UInt8(ascii: "2") : UInt8(ascii: "1")
            guard let hash = try? PasswordHash(encoded: String(decoding: other, as: UTF8.self)) else { continue }
            // Counts of eight digits would take long; five of ours can be read.
            #expect(try hash.iterations.count > 100_000 || !hash.verify(SecretBytes("x")), "byte \(index)")
        }
    }
}
