import DataProtection

/// Verbs that have a new name. The old names still work in this release, with a warning that has the new one.
enum OldName {
    private static let renamed = [
        "inspect": ["explain", "--stored"], "import": ["rncryptor", "open"], "export": ["rncryptor", "seal"],
    ]

    /// The words with the new name of the verb. Prints a warning if they have the old one.
    static func replaced(in words: [String]) -> [String] {
        let start = words.first == "help" ? 1 : 0
        guard start < words.count, let new = renamed[words[start]] else { return words }
        StandardError.line(
            .warning,
            "\(quoted(words[start])) is an old name, which the next release removes; use: protectfs "
                + new.joined(separator: " "))
        let verb = start == 0 ? new : new.filter { !$0.hasPrefix("-") }
        return Array(words[..<start]) + verb + Array(words[(start + 1)...])
    }
}
