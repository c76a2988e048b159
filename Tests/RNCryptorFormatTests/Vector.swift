import Foundation
import ProtectionKeys
import Testing

/// One published vector: a file of `name: value` lines below `Vectors/`.
struct Vector: Sendable, CustomTestStringConvertible {
    /// A file that is no vector, or a field that is not there.
    struct Malformed: Error {
        let name: String
        let what: String
    }

    static let directory = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Vectors")

    /// Folder and file, without the extension.
    let name: String
    private let fields: [String: String]

    var testDescription: String { name }

    init(name: String, text: String) throws {
        var fields: [String: String] = [:]
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, fields[String(parts[0])] == nil else {
                throw Malformed(name: name, what: "the line \(line)")
            }
            // Behind the colon one space; a password may have more.
            fields[String(parts[0])] = String(parts[1].dropFirst())
        }
        guard let source = fields["source"], source.hasPrefix("RNCryptor-Spec, ") else {
            throw Malformed(name: name, what: "no source")
        }
        self.name = name
        self.fields = fields
    }

    /// Every vector of a folder, by name.
    static func all(in folder: String) throws -> [Vector] {
        let files = try FileManager.default.contentsOfDirectory(atPath: directory.appendingPathComponent(folder).path)
        return try files.sorted().map { file in
            let text = try String(
                contentsOf: directory.appendingPathComponent("\(folder)/\(file)"), encoding: .utf8)
            return try Vector(name: "\(folder)/\(file.dropLast(".txt".count))", text: text)
        }
    }

    /// A field of text.
    func text(_ field: String) throws -> String {
        guard let text = fields[field] else { throw Malformed(name: name, what: "no field \(field)") }
        return text
    }

    /// A field in hex.
    func bytes(_ field: String) throws -> [UInt8] {
        let text = try text(field)
        if text.isEmpty { return [] }
        guard let bytes = Hexadecimal.bytes(text) else { throw Malformed(name: name, what: "no hex in \(field)") }
        return bytes
    }

    func version() throws -> UInt8 {
        guard let version = UInt8(try text("version")) else { throw Malformed(name: name, what: "no version") }
        return version
    }
}
