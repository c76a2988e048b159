/// Content-Range: RFC 9110 §14.4. Bounds in bytes.
enum ContentRange: Hashable {
    /// `bytes 5-9/10`; the length may be unknown: `*`.
    case bytes(ClosedRange<UInt64>, of: UInt64?)
    /// `bytes */10`, with 416.
    case unsatisfied(of: UInt64)

    /// Nil for what breaks the grammar, other units, and ranges that end behind the end.
    init?(_ text: String) {
        let words = text.split(separator: " ", omittingEmptySubsequences: true)
        guard words.count == 2, words[0].lowercased() == "bytes" else { return nil }
        let parts = words[1].split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        let length = Self.number(parts[1])
        guard length != nil || parts[1] == "*" else { return nil }
        if parts[0] == "*" {
            guard let length else { return nil }
            self = .unsatisfied(of: length)
            return
        }
        let bounds = parts[0].split(separator: "-", omittingEmptySubsequences: false)
        guard bounds.count == 2, let first = Self.number(bounds[0]), let last = Self.number(bounds[1]), first <= last,
            last < length ?? UInt64.max
        else { return nil }
        self = .bytes(first...last, of: length)
    }

    static func number(_ text: some StringProtocol) -> UInt64? {
        guard !text.isEmpty, text.utf8.count <= 18, text.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) else { return nil }
        return UInt64(text)
    }
}
