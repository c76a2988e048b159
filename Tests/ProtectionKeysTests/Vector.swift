import Foundation
import Testing

@testable import ProtectionKeys

/// One scenario: a file of `name: value` lines below `Vectors/`. Values are hex, and text or decimal where it is clear.
struct Vector: Sendable, CustomTestStringConvertible {
    /// What the scenario comes to; a refusal names the layer that must refuse.
    enum Expectation: String, Sendable {
        case success
        case unwrapFailure = "unwrap failure"
        case authenticationFailure = "authentication failure"
        case unusablePublicKey = "unusable public key"
        case invalidTag = "invalid tag"
        case wrongLength = "wrong length"
        case noSuchCharacter = "no such character"
        case wrongChecksum = "wrong checksum"

        /// The error that says so. An invalid tag is an answer, not an error; a typo is an error of another type.
        var error: KeyError? {
            switch self {
            case .success, .invalidTag, .wrongLength, .noSuchCharacter, .wrongChecksum: nil
            case .unwrapFailure: .unwrapFailed
            case .authenticationFailure: .authenticationFailed
            case .unusablePublicKey: .unusablePublicKey
            }
        }
    }

    /// A file that is no scenario, or a field that is not there.
    struct Malformed: Error {
        let name: String
        let what: String
    }

    static let directory = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Vectors")

    /// Folder and file, without the extension.
    let name: String
    let expect: Expectation
    let source: String
    private let fields: [String: String]

    var testDescription: String { name }

    init(name: String, text: String) throws {
        var fields: [String: String] = [:]
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { throw Malformed(name: name, what: "a line without a colon") }
            let field = String(parts[0])
            guard fields[field] == nil else { throw Malformed(name: name, what: "two fields \(field)") }
            fields[field] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        guard let expect = fields["expect"].flatMap(Expectation.init) else {
            throw Malformed(name: name, what: "no known expect")
        }
        guard let source = fields["source"], !source.isEmpty else { throw Malformed(name: name, what: "no source") }
        self.name = name
        self.expect = expect
        self.source = source
        self.fields = fields
    }

    /// The scenario in the file `name`.txt.
    static func named(_ name: String) throws -> Vector {
        let file = directory.appendingPathComponent("\(name).txt")
        return try Vector(name: name, text: String(contentsOf: file, encoding: .utf8))
    }

    /// Every scenario of a folder, by name.
    static func all(in folder: String) throws -> [Vector] {
        let files = try FileManager.default.contentsOfDirectory(atPath: directory.appendingPathComponent(folder).path)
        return try files.sorted().map { file in try named("\(folder)/\(file.dropLast(".txt".count))") }
    }

    /// A field in hex.
    func bytes(_ field: String) throws -> [UInt8] {
        let digits = Array(try text(field).utf8)
        guard digits.count.isMultiple(of: 2) else { throw Malformed(name: name, what: "half a byte in \(field)") }
        return try stride(from: 0, to: digits.count, by: 2).map { at in
            guard let byte = UInt8(String(decoding: digits[at..<at + 2], as: UTF8.self), radix: 16) else {
                throw Malformed(name: name, what: "no hex in \(field)")
            }
            return byte
        }
    }

    /// Whether there is such a field.
    func has(_ field: String) -> Bool { fields[field] != nil }

    func secret(_ field: String) throws -> SecretBytes { SecretBytes(try bytes(field)) }

    /// A decimal field.
    func number(_ field: String) throws -> Int {
        guard let number = Int(try text(field)) else { throw Malformed(name: name, what: "no number in \(field)") }
        return number
    }

    func text(_ field: String) throws -> String {
        guard let text = fields[field] else { throw Malformed(name: name, what: "no field \(field)") }
        return text
    }

    /// Expects that `compute` gives the bytes of `field`, or fails with the refusal that `expect:` names.
    func check(
        _ field: String, sourceLocation: SourceLocation = #_sourceLocation, _ compute: () throws -> [UInt8]
    ) throws {
        let discrepancy = try discrepancy(field, compute)
        #expect(discrepancy == nil, "\(name)", sourceLocation: sourceLocation)
    }

    /// What `compute` came to, if it is not what the scenario expects.
    func discrepancy(_ field: String, _ compute: () throws -> [UInt8]) throws -> String? {
        let outcome = Result(catching: compute)
        switch (expect, outcome) {
        case (.success, .success(let computed)):
            return computed == (try bytes(field)) ? nil : "\(field) is \(computed)"
        case (_, .failure(let error as KeyError)) where error == expect.error: return nil
        default: return "\(outcome) instead of \(expect.rawValue)"
        }
    }
}

extension Vector {
    /// The name in the fields `keybag`, `class` and `generation`.
    func classKeyName() throws -> ClassKeyName {
        guard let protectionClass = ProtectionClass(rawValue: UInt8(try number("class"))) else {
            throw Malformed(name: name, what: "no such class")
        }
        return ClassKeyName(
            keybag: try keybag(), protectionClass: protectionClass, generation: UInt32(try number("generation")))
    }

    func keybag() throws -> KeybagUUID { try KeybagUUID(bytes: bytes("keybag")) }
}
