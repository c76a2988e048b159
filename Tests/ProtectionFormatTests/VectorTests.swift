import Foundation
import TestVectors
import Testing

/// A vector that nobody finds is a test that nobody runs.
@Suite struct VectorTests {
    /// Scenarios in each folder: successes and refusals.
    static let folders: [String: [Int]] = [
        "attempts": [4, 8], "backup-keybag": [5, 29], "client": [4, 6], "event": [5, 7], "file": [47, 35],
        "head": [30, 98], "join-seal": [3, 13], "keybag": [14, 68],
        "redo-record": [7, 35], "recovery-export": [7, 16],
        "ring-payload": [6, 13], "secret": [8, 28], "transition": [4, 5], "wrap": [8, 0],
    ]

    @Test func everyScenarioIsThere() throws {
        var found: [String: [Int]] = [:]
        for folder in try FileManager.default.contentsOfDirectory(atPath: FormatVector.directory.path)
        where !folder.contains(".") && folder != "__pycache__" {
            let vectors = try FormatVector.all(in: folder)
            let successes = vectors.count { $0.isSuccess }
            found[folder] = [successes, vectors.count - successes]
        }
        #expect(found == Self.folders)
    }

    @Test func readsFields() throws {
        let vector = try FormatVector(
            name: "v",
            text: "expect: damaged head\nsource: §1: here\nkey: 00fF zero*3 ramp*2\nempty:\nn: 7\nholes: 1+2 5+1\n")
        #expect(vector.expect == "damaged head" && !vector.isSuccess)
        #expect(try vector.bytes("key") == [0, 0xFF, 0, 0, 0, 0, 1])
        #expect(try vector.bytes("empty") == [])
        #expect(try vector.number("n") == 7)
        #expect(try vector.runs("holes") == [1..<3, 5..<6])
        #expect(try vector.runs("none") == [])
        #expect(vector.has("key") && !vector.has("salt"))
    }

    @Test func longRampsBeginAnew() throws {
        let vector = try FormatVector(name: "v", text: "expect: success\nsource: s\ntext: ramp*252\n")
        #expect(try vector.bytes("text").suffix(2) == [250, 0])
    }

    @Test(arguments: [
        "source: no expectation\n", "expect: success\n", "expect: success\nsource: a line without a colon\nkey\n",
        "expect: success\nsource: a field twice\nkey: 00\nkey: 01\n",
    ])
    func refusesWhatIsNoScenario(text: String) {
        #expect(throws: FormatVector.Malformed.self) { try FormatVector(name: "v", text: text) }
    }

    @Test(arguments: ["half", "word", "absent", "run"])
    func refusesWhatIsNoHex(field: String) throws {
        let vector = try FormatVector(
            name: "v", text: "expect: success\nsource: s\nhalf: 0a1\nword: 0xg1\nrun: zero*x\n")
        #expect(throws: FormatVector.Malformed.self) { try vector.bytes(field) }
    }
}
