import Foundation

/// `docs/protectfs.1`, taken apart: mdoc(7) is read line by line.
struct ManualPage {
    /// What the page says about one verb: its `.Ss` in COMMANDS.
    struct Verb {
        let name: String
        /// The first paragraph as running text, without macros.
        let introduction: String
        /// Options in the lines above the first paragraph.
        let synopsis: Set<String>
        /// Options with an `.It`, here or among those of many commands; for each the names on its line.
        let items: [Set<String>]
    }

    let verbs: [Verb]
    /// Options described for all verbs that have them.
    let common: [Set<String>]
    /// The numbers in EXIT STATUS.
    let exitStatuses: [Int32]
    /// The literal blocks of EXAMPLES.
    let examples: [String]

    init() throws { self.init(try Checkout.text("docs/protectfs.1")) }

    init(_ source: String) {
        let lines = source.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        let sections = Self.parts(lines, at: ".Sh ")
        verbs = Self.parts(sections["COMMANDS"] ?? [], at: ".Ss ").map { name, lines in
            let head = lines.prefix { $0 != ".Pp" }
            return Verb(
                name: name,
                introduction: Self.text(
                    lines.dropFirst(head.count + 1).prefix { $0 != ".Pp" && !$0.hasPrefix(".Bl") }),
                synopsis: head.reduce([]) { $0.union(Self.options($1)) },
                items: lines.filter { $0.hasPrefix(".It ") }.map(Self.options).filter { !$0.isEmpty })
        }
        common = (sections["OPTIONS OF MANY COMMANDS"] ?? []).filter { $0.hasPrefix(".It ") }.map(Self.options)
        exitStatuses = (sections["EXIT STATUS"] ?? []).filter { $0.hasPrefix(".It ") }
            .compactMap { Int32($0.dropFirst(4)) }
        examples = Self.literals(sections["EXAMPLES"] ?? [])
    }

    /// `.Op Fl -class Ar class` → `--class`.
    private static func options(_ line: String) -> Set<String> {
        let words = line.split(separator: " ")
        // `Fl \\&-` is the `--` that ends options.
        return Set(
            zip(words, words.dropFirst()).filter { ["Fl", ".Fl"].contains($0.0) && $0.1 != "\\&-" }.map { "-" + $0.1 })
    }

    /// `.Cm complete` → `complete`.
    private static func text(_ lines: some Sequence<String>) -> String {
        lines.map { line in
            guard line.hasPrefix(".") else { return line }
            return line.split(separator: " ").filter { !$0.contains(#/^\.?[A-Z][a-z]$/#) }.joined(separator: " ")
        }.joined(separator: " ")
    }

    private static func parts(_ lines: [String], at mark: String) -> [String: [String]] {
        var found: [String: [String]] = [:]
        var name: String?
        for line in lines {
            if line.hasPrefix(mark) {
                name = String(line.dropFirst(mark.count))
                found[name!] = []
            } else if let name {
                found[name]?.append(line)
            }
        }
        return found
    }

    private static func literals(_ lines: [String]) -> [String] {
        var found: [String] = []
        var block: [String]?
        for line in lines {
            if line.hasPrefix(".Bd -literal") {
                block = []
            } else if line == ".Ed" {
                if let block { found.append(block.joined(separator: "\n")) }
                block = nil
            } else {
                block?.append(unescaped(line))
            }
        }
        return found
    }

    /// The escapes that the page uses in literal text.
    private static func unescaped(_ line: String) -> String {
        line.replacingOccurrences(of: "\\-", with: "-").replacingOccurrences(of: "\\(aq", with: "'")
            .replacingOccurrences(of: "\\e", with: "\\")
    }
}
