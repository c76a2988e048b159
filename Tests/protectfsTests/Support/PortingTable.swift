import Foundation

/// The table of docs/guide/PORTING-FROM-IOS.md, section "The changes", as substitutions.
struct PortingTable {
    /// A row: `…` on the left matches an argument, with its own parentheses, and stands for the same on the right.
    struct Change {
        let before: String
        let after: String
    }
    let changes: [Change]

    struct NoTable: Error {}

    init(markdown: String) throws {
        guard let section = markdown.components(separatedBy: "\n## The changes\n").dropFirst().first else {
            throw NoTable()
        }
        let rows = section.components(separatedBy: "\n## ")[0].split(separator: "\n").filter { $0.hasPrefix("|") }
        changes = rows.dropFirst(2).map { row in
            let cells = row.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            let code = cells.dropFirst().map {
                $0.replacingOccurrences(of: "<br>", with: "\n").replacingOccurrences(of: "`", with: "")
            }
            return Change(before: code[code.startIndex], after: code[code.startIndex + 1])
        }
    }

    /// The source with every change made wherever it applies, and how often each did.
    func apply(to source: String) throws -> (text: String, counts: [Int]) {
        var text = source
        var counts: [Int] = []
        for change in changes {
            let parts = change.before.components(separatedBy: "…")
            let pattern = parts.map { NSRegularExpression.escapedPattern(for: $0) }.joined(separator: Self.argument)
            var template = ""
            for (index, part) in change.after.components(separatedBy: "…").enumerated() {
                template += (index == 0 ? "" : "$\(index)") + NSRegularExpression.escapedTemplate(for: part)
            }
            let expression = try NSRegularExpression(pattern: pattern)
            let whole = NSRange(text.startIndex..., in: text)
            counts.append(expression.numberOfMatches(in: text, range: whole))
            text = expression.stringByReplacingMatches(in: text, range: whole, withTemplate: template)
        }
        return (text, counts)
    }

    /// Anything in which parentheses are closed, three deep at most.
    private static let argument: String = {
        let flat = "[^()]*"
        let one = "\(flat)(?:\\(\(flat)\\)\(flat))*"
        let two = "\(flat)(?:\\(\(one)\\)\(flat))*"
        return "(\(flat)(?:\\(\(two)\\)\(flat))*?)"
    }()
}
