public import Foundation

/// One scenario of FORMAT.md §§2 and 3: a file of `name: value` lines below `Tests/ProtectionFormatTests/Vectors`.
///
/// Bytes are hex; `zero*N` stands for N zero bytes and `ramp*N` for 0, 1 … 250, 0, 1 …
public struct FormatVector: Sendable, CustomStringConvertible {
    /// A file that is no scenario, or a field that is not there.
    public struct Malformed: Error {
        let name: String
        let what: String
    }

    /// Where the folders are.
    public static let directory = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("ProtectionFormatTests/Vectors")

    /// Folder and file, without the extension.
    public let name: String
    /// `success`, or who must refuse.
    public let expect: String
    private let fields: [String: String]

    public var description: String { name }

    /// Whether nothing must refuse.
    public var isSuccess: Bool { expect == "success" }

    public init(name: String, text: String) throws {
        var fields: [String: String] = [:]
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { throw Malformed(name: name, what: "a line without a colon") }
            guard fields[String(parts[0])] == nil else { throw Malformed(name: name, what: "two fields \(parts[0])") }
            fields[String(parts[0])] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        guard let expect = fields["expect"], fields["source"] != nil else {
            throw Malformed(name: name, what: "no expect, or no source")
        }
        self.name = name
        self.expect = expect
        self.fields = fields
    }

    /// The scenario in the file `name`.txt.
    public static func named(_ name: String) throws -> FormatVector {
        let file = directory.appendingPathComponent("\(name).txt")
        return try FormatVector(name: name, text: String(contentsOf: file, encoding: .utf8))
    }

    /// Every scenario of a folder, by name.
    public static func all(in folder: String) throws -> [FormatVector] {
        let files = try FileManager.default.contentsOfDirectory(atPath: directory.appendingPathComponent(folder).path)
        return try files.sorted().map { file in try named("\(folder)/\(file.dropLast(".txt".count))") }
    }

    /// The names of all fields.
    public var names: [String] { fields.keys.sorted() }

    public func has(_ field: String) -> Bool { fields[field] != nil }

    public func text(_ field: String) throws -> String {
        guard let text = fields[field] else { throw Malformed(name: name, what: "no field \(field)") }
        return text
    }

    /// A decimal field.
    public func number(_ field: String) throws -> UInt64 {
        guard let number = UInt64(try text(field)) else { throw Malformed(name: name, what: "no number in \(field)") }
        return number
    }

    /// A field of bytes.
    public func bytes(_ field: String) throws -> [UInt8] {
        var bytes: [UInt8] = []
        for token in try text(field).split(separator: " ") {
            if token.hasPrefix("zero*"), let count = Int(token.dropFirst(5)) {
                bytes += [UInt8](repeating: 0, count: count)
            } else if token.hasPrefix("ramp*"), let count = Int(token.dropFirst(5)) {
                bytes += (0..<count).map { UInt8($0 % 251) }
            } else {
                bytes += try hex(token, field)
            }
        }
        return bytes
    }

    private func hex(_ digits: Substring, _ field: String) throws -> [UInt8] {
        let values = digits.utf8.compactMap { Character(UnicodeScalar($0)).hexDigitValue.map(UInt8.init) }
        guard values.count == digits.utf8.count, values.count.isMultiple(of: 2) else {
            throw Malformed(name: name, what: "no hex in \(field)")
        }
        return stride(from: 0, to: values.count, by: 2).map { values[$0] << 4 | values[$0 + 1] }
    }

    /// `field` as `first+count` pairs.
    public func runs(_ field: String) throws -> [Range<UInt64>] {
        guard has(field) else { return [] }
        return try text(field).split(separator: " ").map { pair in
            let numbers = pair.split(separator: "+").compactMap { UInt64($0) }
            guard numbers.count == 2 else { throw Malformed(name: name, what: "no runs in \(field)") }
            return numbers[0]..<numbers[0] + numbers[1]
        }
    }
}
