import Foundation
import TestEffort
import Testing

@testable import PasswordHash

/// Python's hashlib and hmac share no code of ours. It reads and writes the encoded strings from docs/guide/PASSWORDS.md alone.
@Suite("Against Python's hashlib, in both directions")
struct HashlibTests {
    private static let cases = 24

    /// Reads `PASSWORD HASH` and `PASSWORD SITE USER VERIFIER`, hex but for the last, and says of each line whether it is right.
    private static let checker = """
        import base64, hashlib, hmac, re, sys
        def decode(text): return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        for line in sys.stdin:
            *given, encoded = line.split()
            given = [bytes.fromhex(text) for text in given]
            hashed = re.fullmatch(r"\\$pbkdf2-sha256\\$i=([1-9][0-9]*),l=32\\$([^$]+)\\$([^$]+)", encoded)
            verifier = re.fullmatch(r"\\$client-pbkdf2-sha256\\$i=([1-9][0-9]*),l=(16|20|32)\\$([^$]+)", encoded)
            if hashed:
                derived = hashlib.pbkdf2_hmac("sha256", given[0], decode(hashed[2]), int(hashed[1]), 32)
                right = hmac.compare_digest(derived, decode(hashed[3]))
            else:
                salt = given[1] + b":" + given[2]
                key = hashlib.pbkdf2_hmac("sha256", given[0], salt, int(verifier[1]), int(verifier[2]))
                right = hmac.compare_digest(hashlib.sha256(key).digest(), decode(verifier[3]))
            print("right" if right else "wrong")
        """

    /// Writes such lines, from a seed.
    private static let maker = """
        import base64, hashlib, random, sys
        rng = random.Random(int(sys.argv[1]))
        def encode(value): return base64.b64encode(value).decode().rstrip("=")
        def some(count): return bytes(rng.randrange(1, 256) for _ in range(count))
        def name(count): return "".join(rng.choice("abcXYZ-._0189 é€𝄞") for _ in range(count)).encode()
        for number in range(int(sys.argv[2])):
            password = some(rng.choice([1, 8, 63, 64, 65, 128, 1024, rng.randrange(1, 1025)]))
            count = rng.randrange(10000, 15000)
            if number % 2 == 0:
                salt = rng.randbytes(rng.randrange(16, 49))
                derived = hashlib.pbkdf2_hmac("sha256", password, salt, count, 32)
                print(password.hex(), f"$pbkdf2-sha256$i={count},l=32${encode(salt)}${encode(derived)}")
            else:
                site, user = name(rng.randrange(1, 60)), name(rng.randrange(1, 200)) + b":" * rng.randrange(2)
                length = rng.choice([16, 20, 32])
                key = hashlib.pbkdf2_hmac("sha256", password, site + b":" + user, count, length)
                digest = encode(hashlib.sha256(key).digest())
                print(password.hex(), site.hex(), user.hex(), f"$client-pbkdf2-sha256$i={count},l={length}${digest}")
        """

    private static func python(_ script: String, _ arguments: [String] = [], input: String = "") throws -> [Substring] {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("hashlib-\(UUID().uuidString)")
        try Data(input.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", "-c", script] + arguments
        let output = Pipe()
        process.standardInput = try FileHandle(forReadingFrom: file)
        process.standardOutput = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
        return text.split(separator: "\n")
    }

    @Test("hashlib accepts our strings with the right password, and rejects them with another one")
    func ours() throws {
        var (_, generator) = seeded("HashlibTests.ours")
        var lines: [String] = []
        var expected: [String] = []
        for number in 0..<Self.cases {
            let password = generator.password()
            let iterations = try Iterations(Int.random(in: 10_000...15_000, using: &generator))
            let encoded: String
            var salt = ""
            if number.isMultiple(of: 2) {
                encoded = try PasswordHash.hash(SecretBytes(password), iterations: iterations).encoded
            } else {
                let length = ClientKeyParameters.KeyLength.allCases.randomElement(using: &generator)!
                let (site, userID) = ("site-\(number).example", "user:\(number) é")
                let key = try PasswordHash.clientKey(
                    password: SecretBytes(password), site: site, userID: userID,
                    parameters: ClientKeyParameters(iterations: iterations, length: length))
                encoded = try StoredVerifier(of: key).encoded
                salt = " \(hexadecimal(Array(site.utf8))) \(hexadecimal(Array(userID.utf8)))"
            }
            let other = Self.altered(password, &generator)
            lines += ["\(hexadecimal(password))\(salt) \(encoded)", "\(hexadecimal(other))\(salt) \(encoded)"]
            expected += ["right", "wrong"]
        }
        let said = try Self.python(Self.checker, input: lines.joined(separator: "\n") + "\n").map(String.init)
        #expect(said == expected)
    }

    @Test("Our code accepts hashlib's strings with the right password, and rejects them with another one")
    func theirs() throws {
        var (seed, generator) = seeded("HashlibTests.theirs")
        let lines = try Self.python(Self.maker, ["\(seed)", "\(Self.cases)"])
        try #require(lines.count == Self.cases)
        for line in lines {
            let fields = line.split(separator: " ")
            let password = bytes(hexadecimal: fields[0])
            for (candidate, isRight) in [(password, true), (Self.altered(password, &generator), false)] {
                if fields.count == 2 {
                    let hash = try PasswordHash(encoded: String(fields[1]))
                    #expect(try hash.verify(SecretBytes(candidate)) == isRight, "\(line)")
                    #expect(hash.encoded == fields[1])
                } else {
                    let verifier = try StoredVerifier(encoded: String(fields[3]))
                    let (site, user) = (bytes(hexadecimal: fields[1]), bytes(hexadecimal: fields[2]))
                    let key = try PasswordHash.clientKey(
                        password: SecretBytes(candidate), site: String(decoding: site, as: UTF8.self),
                        userID: String(decoding: user, as: UTF8.self), parameters: verifier.parameters)
                    #expect(try verifier.verify(key.secret) == isRight, "\(line)")
                    #expect(verifier.encoded == fields[3])
                }
            }
        }
    }

    /// Another password, one byte away.
    private static func altered(_ password: [UInt8], _ generator: inout SeededGenerator) -> [UInt8] {
        var other = password
        let index = Int.random(in: 0..<other.count, using: &generator)
        other[index] = other[index] == 1 ? 2 : 1
        return other
    }
}
