import Foundation
import ProtectionKeys
import TestVectors
import Testing

@testable import PasswordHash

@Suite("PBKDF2-HMAC-SHA256 against published vectors")
struct PublishedVectorTests {
    /// The vectors of ProtectionKeys: one set, not two.
    private static func vector(_ name: String) throws -> FormatVector {
        let file = FormatVector.directory.deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("ProtectionKeysTests/Vectors/pbkdf2/\(name).txt")
        return try FormatVector(name: name, text: String(contentsOf: file, encoding: .utf8))
    }

    /// Their salts and counts are shorter and fewer than we accept, so it is what all of this module derives with that is
    /// asked, for each length that this module has.
    @Test("RFC 7914 §11", arguments: ["rfc7914-1-iteration", "rfc7914-80000-iterations"], [16, 20, 32, 64])
    func derivation(name: String, length: Int) throws {
        let vector = try Self.vector(name)
        let derived = try PBKDF2.derive(
            SecretBytes(vector.bytes("passcode")), salt: vector.bytes("salt"),
            iterations: Int(vector.number("iterations")),
            byteCount: length)
        #expect(derived.readable() == Array(try vector.bytes("output").prefix(length)))
    }

    /// The site `Na` and user `l` with the salt `Na:l`, and a salt of 16 bytes: made once by
    /// `hashlib.pbkdf2_hmac("sha256", b"Password", b"Na:l", 80000).hex()` and so on, of Python 3.11.
    @Test("Results equal those that hashlib made")
    func known() throws {
        let key = try PasswordHash.clientKey(
            password: SecretBytes("Password"), site: "Na", userID: "l",
            parameters: ClientKeyParameters(iterations: Iterations(80_000)))
        #expect(
            hexadecimal(key.secret.readable()) == "a81176643ea2d36ec33a605bbfd23a1f0d32561e50214ad4b513e7f38b6a25cc")
        let encoded = "$pbkdf2-sha256$i=80000,l=32$AAECAwQFBgcICQoLDA0ODw$3LxVcIIqEKiK4+GPFemjNjiv/AGtPoPY7abeC4sUsk8"
        #expect(try PasswordHash(encoded: encoded).verify(SecretBytes("Password")))
        #expect(try !PasswordHash(encoded: encoded).verify(SecretBytes("password")))
        let verifier = "$client-pbkdf2-sha256$i=80000,l=32$EvzJy8k7550u/BekH7ljsWbeV9aQDqDwdfkgl27FsHI"
        #expect(try StoredVerifier(of: key).encoded == verifier)
    }
}
