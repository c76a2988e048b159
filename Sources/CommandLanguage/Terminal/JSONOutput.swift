import DataProtection

/// A JSON value (RFC 8259), for `--json`.
package indirect enum JSON {
    case null
    case bool(Bool)
    case number(Int64)
    case string(String)
    case array([JSON])
    /// In this order.
    case object([(String, JSON)])

    /// Nil is null.
    package static func optional(_ value: (some BinaryInteger)?) -> JSON {
        value.map { .number(Int64(clamping: $0)) } ?? .null
    }

    /// The name of a file: `path`, and `pathBase64` too where it is not UTF-8 and `path` only resembles it.
    package static func members(of path: FilePath, named name: String = "path") -> [(String, JSON)] {
        let bytes = StoredPlace.shown(path).bytes
        let text = (name, JSON.string(String(decoding: bytes, as: UTF8.self)))
        guard String(validating: bytes, as: UTF8.self) == nil else { return [text] }
        return [text, (name + "Base64", .string(Base64.encode(bytes)))]
    }

    /// Prints the value and a newline.
    package func print() throws(Failure) {
        var text = ""
        encode(into: &text, indent: "\n")
        try StandardOutput.write(text + "\n")
    }

    /// The text of the value.
    package var encoded: String {
        var text = ""
        encode(into: &text, indent: "\n")
        return text
    }

    /// The text without a newline in it. Those of strings are escaped.
    package var onOneLine: String {
        encoded.split(separator: "\n").map { $0.drop { $0 == " " } }.joined(separator: " ")
    }

    /// The text of a value that stands in another one, so many columns from the left.
    package func encoded(indentedBy columns: Int) -> String {
        var text = ""
        encode(into: &text, indent: "\n" + String(repeating: " ", count: columns))
        return text
    }

    private func encode(into text: inout String, indent: String) {
        switch self {
        case .null: text += "null"
        case .bool(let value): text += value ? "true" : "false"
        case .number(let value): text += String(value)
        case .string(let value): Self.encode(value, into: &text)
        case .array(let values):
            Self.encode(values, into: &text, indent, "[", "]") { value, text, inner in
                value.encode(into: &text, indent: inner)
            }
        case .object(let members):
            Self.encode(members, into: &text, indent, "{", "}") { member, text, inner in
                Self.encode(member.0, into: &text)
                text += ": "
                member.1.encode(into: &text, indent: inner)
            }
        }
    }

    private static func encode<Element>(
        _ elements: [Element], into text: inout String, _ indent: String, _ open: String, _ close: String,
        _ one: (Element, inout String, String) -> Void
    ) {
        text += open
        for (index, element) in elements.enumerated() {
            text += (index == 0 ? "" : ",") + indent + "  "
            one(element, &text, indent + "  ")
        }
        text += (elements.isEmpty ? "" : indent) + close
    }

    /// Control characters are escaped, those that only a terminal minds too.
    private static func encode(_ string: String, into text: inout String) {
        text += "\""
        for scalar in string.unicodeScalars {
            switch scalar.value {
            case 0x22: text += "\\\""
            case 0x5C: text += "\\\\"
            case 0x0A: text += "\\n"
            case 0x09: text += "\\t"
            case _ where isUnprintable(scalar):
                let digits = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: text.unicodeScalars.append(scalar)
            }
        }
        text += "\""
    }
}
