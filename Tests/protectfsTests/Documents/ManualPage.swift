import Foundation

/// What the manual pages say about the verbs of the command, taken apart: mdoc(7) is read line by line.
struct ManualPage {
    /// What a page says about one verb: its `.Ss` in COMMANDS.
    struct Verb {
        let name: String
        /// The first paragraph as running text, without macros.
        let introduction: String
        /// Options in the lines above the first paragraph, also those of the groups that these lines name.
        let synopsis: Set<String>
        /// Options with an `.It` below the verb; for each the names on its line.
        let items: [Set<String>]
        /// Options described for all verbs that have them: those of `docs/man/protectfs.1`, and those of its own page.
        let common: [Set<String>]
    }

    let verbs: [Verb]
    /// The numbers in EXIT STATUS.
    let exitStatuses: [Int32]
    /// The literal blocks of EXAMPLES.
    let examples: [String]

    /// The page of the command, then those of the programs that perform some of its verbs.
    private static let pages = [
        "docs/man/protectfs.1", "docs/man/protectfs-secrets.1", "docs/man/protectfs-download.1",
        "docs/man/protectfs-conformance.1",
    ]

    init() throws {
        let pages = try Self.pages.map { page in
            let lines = try Checkout.text(page).split(separator: "\n", omittingEmptySubsequences: false)
            return Self.parts(lines.map(String.init), at: ".Sh ")
        }
        let first = pages[0]
        let everywhere = Self.groups(first[Self.options] ?? []).flatMap(\.value)
        verbs = pages.flatMap { page in
            let groups = Self.groups(page[Self.options] ?? [])
            let common = everywhere + groups.flatMap(\.value)
            return Self.parts(page["COMMANDS"] ?? [], at: ".Ss ").map { name, lines in
                Verb(name: name, lines: lines, groups: groups, common: common)
            }
        }
        exitStatuses = (first["EXIT STATUS"] ?? []).filter { $0.hasPrefix(".It ") }
            .compactMap { Int32($0.dropFirst(4)) }
        examples = Self.literals(first["EXAMPLES"] ?? [])
    }

    private static let options = "OPTIONS OF MANY COMMANDS"

    /// The options of each `.Ss`, under its name in lower case. Those above the first one are under "".
    private static func groups(_ lines: [String]) -> [String: [Set<String>]] {
        var found: [String: [Set<String>]] = [:]
        var group = ""
        for line in lines {
            if line.hasPrefix(".Ss ") { group = line.dropFirst(4).lowercased() }
            if line.hasPrefix(".It ") { found[group, default: []].append(options(line)) }
        }
        return found
    }

    /// `.Op Fl -class Ar class` → `--class`.
    fileprivate static func options(_ line: String) -> Set<String> {
        let words = line.split(separator: " ")
        // `Fl \\&-` is the `--` that ends options.
        return Set(
            zip(words, words.dropFirst()).filter { ["Fl", ".Fl"].contains($0.0) && $0.1 != "\\&-" }.map { "-" + $0.1 })
    }

    /// `.Cm complete` → `complete`.
    fileprivate static func text(_ lines: some Sequence<String>) -> String {
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

extension ManualPage.Verb {
    /// - Parameters:
    ///   - lines: what is below the verb's `.Ss`.
    ///   - groups: the options of many commands of its page. `.Op Ar name options` above the first paragraph stands for
    ///     those below `.Ss Name options`.
    fileprivate init(name: String, lines: [String], groups: [String: [Set<String>]], common: [Set<String>]) {
        let head = lines.prefix { $0 != ".Pp" }
        let named = head.filter { $0.hasPrefix(".Op Ar ") }.flatMap { groups[String($0.dropFirst(7))] ?? [] }
        self.name = name
        introduction = ManualPage.text(
            lines.dropFirst(head.count + 1).prefix { $0 != ".Pp" && !$0.hasPrefix(".Bl") })
        synopsis = (head.map(ManualPage.options) + named).reduce([]) { $0.union($1) }
        items = lines.filter { $0.hasPrefix(".It ") }.map(ManualPage.options).filter { !$0.isEmpty }
        self.common = common
    }
}
