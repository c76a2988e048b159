import ProtectionKeys

/// Reads the encoded strings of this module, field by field, and accepts one spelling of each only: what decodes encodes to
/// the same string again.
struct EncodedFields {
    /// Longer strings are refused before anything is looked at, in bytes.
    static let maximumLength = 200
    private var rest: Substring.UTF8View

    /// - Throws: ``PasswordError/malformed(_:reason:)`` if `text` is longer than ``maximumLength``.
    init(_ text: String) throws(PasswordError) {
        guard text.utf8.count <= Self.maximumLength else {
            throw .malformed(.end, reason: "it has more than \(Self.maximumLength) bytes")
        }
        rest = Substring(text).utf8
    }

    /// The name of what it is: `$name$`.
    mutating func scheme(_ name: String) throws(PasswordError) {
        try literal("$\(name)$", .scheme, "it does not begin with $\(name)$")
    }

    /// `i=` and how many: a decimal number without leading zeros, within ``Iterations/allowed``.
    mutating func iterations() throws(PasswordError) -> Iterations {
        let count = try number("i=", .iterations)
        do throws(PasswordError) { return try Iterations(count) } catch {
            throw .malformed(
                .iterations,
                reason: "\(count) is not from \(Iterations.allowed.lowerBound) to \(Iterations.allowed.upperBound)")
        }
    }

    /// `,l=` and how many bytes.
    mutating func length() throws(PasswordError) -> Int { try number(",l=", .length) }

    /// `$`, and base 64 without padding.
    mutating func base64(_ field: PasswordError.Field) throws(PasswordError) -> String {
        try literal("$", field, "it is missing")
        let text = rest.prefix { $0 != UInt8(ascii: "$") }
        rest = rest.dropFirst(text.count)
        return String(Substring(text))
    }

    /// `$`, and 32 bytes.
    mutating func digest() throws(PasswordError) -> StoredDigest {
        guard let digest = StoredDigest(base64: try base64(.digest)) else {
            throw .malformed(.digest, reason: "it is not \(StoredDigest.length) bytes in base 64 without padding")
        }
        return digest
    }

    /// Nothing may follow.
    func end() throws(PasswordError) {
        guard rest.isEmpty else { throw .malformed(.end, reason: "something stands behind it") }
    }

    private mutating func literal(
        _ text: String, _ field: PasswordError.Field, _ reason: String
    ) throws(PasswordError) {
        guard rest.starts(with: text.utf8) else { throw .malformed(field, reason: reason) }
        rest = rest.dropFirst(text.utf8.count)
    }

    private mutating func number(_ name: String, _ field: PasswordError.Field) throws(PasswordError) -> Int {
        try literal(name, field, "\(name) is missing")
        let digits = rest.prefix { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
        guard (1...9).contains(digits.count), digits.first != UInt8(ascii: "0") else {
            throw .malformed(field, reason: "it is no number of 1 to 9 digits without a leading 0")
        }
        rest = rest.dropFirst(digits.count)
        return digits.reduce(0) { 10 * $0 + Int($1 - UInt8(ascii: "0")) }
    }
}
