import Foundation
import Testing

@testable import ProtectionKeys

/// A vector that nobody finds is a test that nobody runs.
@Suite struct VectorTests {
    /// Scenarios in each folder: successes and refusals.
    static let folders: [String: [Int]] = [
        "aes-256-cbc": [1, 0], "aes-256-gcm": [4, 8], "aes-key-wrap": [1, 6], "class-b-wrap": [2, 8],
        "derivation": [25, 0],
        "file-key-wrap": [3, 5], "hkdf": [3, 0], "hmac": [7, 3], "pbkdf2": [2, 0], "pbkdf2-sha1": [5, 0],
        "recovery-code": [8, 10], "sha-256": [5, 0], "x25519": [2, 8], "x25519-iterated": [2, 0],
        "x25519-pairs": [1, 0],
    ]

    @Test func everyScenarioIsThere() throws {
        var found: [String: [Int]] = [:]
        for folder in try FileManager.default.contentsOfDirectory(atPath: Vector.directory.path)
        where !folder.contains(".") && folder != "__pycache__" {
            let vectors = try Vector.all(in: folder)
            let successes = vectors.count { $0.expect == .success }
            found[folder] = [successes, vectors.count - successes]
        }
        #expect(found == Self.folders)
    }

    @Test func readsFields() throws {
        let vector = try Vector(
            name: "v", text: "expect: unwrap failure\nsource: RFC 1: here\nkey: 00fF\nempty:\ncount: 1000\n")
        #expect(vector.expect == .unwrapFailure)
        #expect(vector.source == "RFC 1: here")
        #expect(try vector.bytes("key") == [0x00, 0xFF])
        #expect(try vector.bytes("empty") == [])
        #expect(try vector.number("count") == 1000)
        #expect(vector.has("key") && !vector.has("salt"))
    }

    @Test(arguments: [
        "source: no expectation\n", "expect: succes\nsource: misspelt\n", "expect: success\n",
        "expect: success\nsource: a line without a colon\nkey\n",
        "expect: success\nsource: a field twice\nkey: 00\nkey: 01\n",
    ])
    func refusesWhatIsNoScenario(text: String) {
        #expect(throws: Vector.Malformed.self) { try Vector(name: "v", text: text) }
    }

    @Test(arguments: ["half", "word", "absent"])
    func refusesWhatIsNoHex(field: String) throws {
        let vector = try Vector(name: "v", text: "expect: success\nsource: s\nhalf: 0a1\nword: 0xg1\n")
        #expect(throws: Vector.Malformed.self) { try vector.bytes(field) }
    }

    @Test func everyOtherOutcomeIsADiscrepancy() throws {
        let good = try Vector(name: "v", text: "expect: success\nsource: s\nkey: 00\n")
        #expect(try good.discrepancy("key") { [0x00] } == nil)
        #expect(try good.discrepancy("key") { [0x01] } != nil)
        #expect(try good.discrepancy("key") { [] } != nil)
        #expect(try good.discrepancy("key") { throw KeyError.unwrapFailed } != nil)

        let refused = try Vector(name: "v", text: "expect: unwrap failure\nsource: s\nkey: 00\n")
        #expect(try refused.discrepancy("key") { throw KeyError.unwrapFailed } == nil)
        #expect(try refused.discrepancy("key") { throw KeyError.authenticationFailed } != nil)
        #expect(try refused.discrepancy("key") { throw Vector.Malformed(name: "v", what: "other") } != nil)
        #expect(try refused.discrepancy("key") { [0x00] } != nil)
    }
}
