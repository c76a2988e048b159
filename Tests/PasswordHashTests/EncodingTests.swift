import Foundation
import ProtectionKeys
import TestEffort
import Testing

@testable import PasswordHash

@Suite("Encoded strings: one spelling each, and bounds on everything")
struct EncodingTests {
    private static let salt = "AAECAwQFBgcICQoLDA0ODw"  // 16 bytes
    private static let digest = String(repeating: "A", count: 43)  // 32 bytes

    /// A string that is no hash, and the field that says so.
    @Test(
        "A hash is refused, and the field is named",
        arguments: [
            ("", .scheme), ("$", .scheme), ("pbkdf2-sha256", .scheme),
            ("pbkdf2-sha256$i=10000,l=32$\(salt)$\(digest)", .scheme),
            (" $pbkdf2-sha256$i=10000,l=32$\(salt)$\(digest)", .scheme),
            ("$pbkdf2-sha512$i=10000,l=32$\(salt)$\(digest)", .scheme),
            ("$PBKDF2-SHA256$i=10000,l=32$\(salt)$\(digest)", .scheme),
            ("$argon2id$v=19$m=65536,t=3,p=4$\(salt)$\(digest)", .scheme),
            ("$client-pbkdf2-sha256$i=10000,l=32$\(digest)", .scheme),
            ("$pbkdf2-sha256$v=1$i=10000,l=32$\(salt)$\(digest)", .iterations),
            ("$pbkdf2-sha256$29000$\(salt)$\(digest)", .iterations),
            ("$pbkdf2-sha256$i=9999,l=32$\(salt)$\(digest)", .iterations),
            ("$pbkdf2-sha256$i=0,l=32$\(salt)$\(digest)", .iterations),
            ("$pbkdf2-sha256$i=100000001,l=32$\(salt)$\(digest)", .iterations),
            ("$pbkdf2-sha256$i=010000,l=32$\(salt)$\(digest)", .iterations),
            ("$pbkdf2-sha256$i=+10000,l=32$\(salt)$\(digest)", .iterations),
            ("$pbkdf2-sha256$i=-10000,l=32$\(salt)$\(digest)", .iterations),
            ("$pbkdf2-sha256$i=1e5,l=32$\(salt)$\(digest)", .iterations),
            ("$pbkdf2-sha256$i=,l=32$\(salt)$\(digest)", .iterations),
            ("$pbkdf2-sha256$i=99999999999999999999,l=32$\(salt)$\(digest)", .iterations),
            ("$pbkdf2-sha256$i=١٠٠٠٠,l=32$\(salt)$\(digest)", .iterations),
            ("$pbkdf2-sha256$l=32,i=10000$\(salt)$\(digest)", .iterations),
            ("$pbkdf2-sha256$i=10000$\(salt)$\(digest)", .length),
            ("$pbkdf2-sha256$i=10000,l=31$\(salt)$\(digest)", .length),
            ("$pbkdf2-sha256$i=10000,l=64$\(salt)$\(digest)", .length),
            ("$pbkdf2-sha256$i=10000,l=032$\(salt)$\(digest)", .length),
            ("$pbkdf2-sha256$i=10000,i=10000,l=32$\(salt)$\(digest)", .length),
            ("$pbkdf2-sha256$i=10000,l=32,x=1$\(salt)$\(digest)", .salt),
            ("$pbkdf2-sha256$i=10000,l=32", .salt),
            ("$pbkdf2-sha256$i=10000,l=32$", .salt),
            ("$pbkdf2-sha256$i=10000,l=32$AAECAwQFBgcICQoLDA0O$\(digest)", .salt),  // 15 bytes
            ("$pbkdf2-sha256$i=10000,l=32$\(String(repeating: "A", count: 66))$\(digest)", .salt),  // 49 bytes
            ("$pbkdf2-sha256$i=10000,l=32$\(salt)==$\(digest)", .salt),
            ("$pbkdf2-sha256$i=10000,l=32$AAECAwQFBgcICQoLDA0OD.$\(digest)", .salt),
            ("$pbkdf2-sha256$i=10000,l=32$AAECAwQFBgcICQoLDA0ODx$\(digest)", .salt),  // bits that mean nothing
            ("$pbkdf2-sha256$i=10000,l=32$\(salt)", .digest),
            ("$pbkdf2-sha256$i=10000,l=32$\(salt)$", .digest),
            ("$pbkdf2-sha256$i=10000,l=32$\(salt)$\(digest)=", .digest),
            ("$pbkdf2-sha256$i=10000,l=32$\(salt)$\(digest)A", .digest),
            ("$pbkdf2-sha256$i=10000,l=32$\(salt)$\(digest)\n", .digest),
            ("$pbkdf2-sha256$i=10000,l=32$\(salt)$\(digest.dropLast())B", .digest),
            ("$pbkdf2-sha256$i=10000,l=32$\(salt)$\(digest)$", .end),
            ("$pbkdf2-sha256$i=10000,l=32$\(salt)$\(digest)$x", .end),
            (String(repeating: "$", count: 201), .end),
        ] as [(String, PasswordError.Field)])
    func refusedHash(text: String, field: PasswordError.Field) {
        #expect(Self.field(text) { _ = try PasswordHash(encoded: $0) } == field)
    }

    @Test(
        "A verifier is refused, and the field is named",
        arguments: [
            ("$pbkdf2-sha256$i=10000,l=32$\(salt)$\(digest)", .scheme),
            ("$client-pbkdf2-sha256$i=9999,l=32$\(digest)", .iterations),
            ("$client-pbkdf2-sha256$i=100000001,l=32$\(digest)", .iterations),
            ("$client-pbkdf2-sha256$i=10000,l=24$\(digest)", .length),
            ("$client-pbkdf2-sha256$i=10000,l=0$\(digest)", .length),
            ("$client-pbkdf2-sha256$i=10000,l=32", .digest),
            ("$client-pbkdf2-sha256$i=10000,l=32$\(salt)", .digest),
            ("$client-pbkdf2-sha256$i=10000,l=32$\(salt)$\(digest)", .digest),
            ("$client-pbkdf2-sha256$i=10000,l=32$\(digest)$", .end),
        ] as [(String, PasswordError.Field)])
    func refusedVerifier(text: String, field: PasswordError.Field) {
        #expect(Self.field(text) { _ = try StoredVerifier(encoded: $0) } == field)
    }

    @Test(
        "Parameters are refused, and the field is named",
        arguments: [
            ("", .scheme), ("$client-pbkdf2-sha256$i=9999,l=32", .iterations),
            ("$client-pbkdf2-sha256$i=10000,l=33", .length), ("$client-pbkdf2-sha256$i=10000,l=32$", .end),
            ("$client-pbkdf2-sha256$i=10000,l=32$\(digest)", .end),
        ] as [(String, PasswordError.Field)])
    func refusedParameters(text: String, field: PasswordError.Field) {
        #expect(Self.field(text) { _ = try ClientKeyParameters(encoded: $0) } == field)
    }

    @Test("An accepted string encodes to the same string", arguments: [16, 17, 18, 32, 47, 48])
    func accepted(saltLength: Int) throws {
        let salt = Base64.encodeUnpadded((0..<saltLength).map { UInt8($0 * 5) })
        for count in ["10000", "600000", "100000000"] {
            let text = "$pbkdf2-sha256$i=\(count),l=32$\(salt)$\(Self.digest)"
            #expect(try PasswordHash(encoded: text).encoded == text)
            for length in [16, 20, 32] {
                let parameters = "$client-pbkdf2-sha256$i=\(count),l=\(length)"
                #expect(try ClientKeyParameters(encoded: parameters).encoded == parameters)
                let verifier = "\(parameters)$\(Self.digest)"
                #expect(try StoredVerifier(encoded: verifier).encoded == verifier)
            }
        }
    }

    @Test("A randomly altered string is refused, or encodes to the same string")
    func mutations() throws {
        var (_, generator) = seeded("EncodingTests.mutations")
        let originals = [
            "$pbkdf2-sha256$i=600000,l=32$\(Self.salt)$\(Self.digest)",
            "$client-pbkdf2-sha256$i=50000,l=20$\(Self.digest)",
        ].map { Array($0.utf8) }
        let alphabet = Array("$=,ilA/+0129.\n \0é".utf8)
        var accepted = 0
        for _ in 0..<20_000 {
            var bytes = originals.randomElement(using: &generator)!
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let index = Int.random(in: 0..<bytes.count, using: &generator)
                switch Int.random(in: 0..<4, using: &generator) {
                case 0: bytes[index] = alphabet.randomElement(using: &generator)!
                case 1: bytes.insert(alphabet.randomElement(using: &generator)!, at: index)
                case 2: bytes.remove(at: index)
                default: bytes.swapAt(index, Int.random(in: 0..<bytes.count, using: &generator))
                }
            }
            let text = String(decoding: bytes, as: UTF8.self)
            let encoded = [
                (try? PasswordHash(encoded: text))?.encoded, (try? StoredVerifier(encoded: text))?.encoded,
            ].compactMap { $0 }
            accepted += encoded.count
            #expect(encoded.allSatisfy { Array($0.utf8) == Array(text.utf8) }, "\(text)")
        }
        #expect(accepted > 100)  // or nothing was shown
    }

    @Test("A megabyte is refused before it is looked at")
    func long() {
        let text = "$pbkdf2-sha256$i=10000,l=32$" + String(repeating: "A", count: 1 << 20)
        #expect(Self.field(text) { _ = try PasswordHash(encoded: $0) } == .end)
        #expect(Self.field(text) { _ = try StoredVerifier(encoded: $0) } == .end)
    }

    private static func field(_ text: String, _ body: (String) throws -> Void) -> PasswordError.Field? {
        guard case .malformed(let field, _) = error(of: { try body(text) }) else { return nil }
        return field
    }

    @Test("An error says what is wrong to an application too")
    func words() {
        #expect(PasswordError.unusablePassword(.empty).localizedDescription == "an empty password cannot be used")
        #expect(PasswordError.unusableSalt(.site, .hasColon).localizedDescription == "the name of the site has a colon")
    }
}
