import Conformance

/// What came of every cell: the matrix, the differences, the counts.
struct ConformanceReport {
    private struct Entry {
        let cell: Cell
        let finding: Finding?
        let verdict: Verdict
    }
    private let table: SemanticsTable
    private var entries: [Entry] = []

    init(_ table: SemanticsTable) { self.table = table }

    /// In the order of the table.
    mutating func add(_ cell: Cell, _ finding: Finding?) {
        entries.append(Entry(cell: cell, finding: finding, verdict: Verdict(cell, finding)))
    }

    /// How many cells are not as the table says.
    var differences: Int { count { $0 == .different } }

    private func count(_ isCounted: (Verdict) -> Bool) -> Int { entries.count { isCounted($0.verdict) } }
    private var notApplicable: Int { count { if case .notApplicable = $0 { true } else { false } } }

    // MARK: text

    private static let legend = [
        "four marks: before first unlock, unlocked, grace, locked",
        "+ goes   x ENOKEY   ! EINVAL   - cannot arise   o n/a   ? something else",
    ]

    /// The matrix, what the marks mean, reasons and differences, the counts.
    var lines: [String] { matrix + [""] + Self.legend + remarks + ["", summary] }

    func print() throws(Failure) {
        var output = OutputLines()
        for line in lines { try output.add(Array(line.utf8)) }
        try output.finish()
    }

    private var matrix: [String] {
        var rest = entries[...]
        func marks() -> String {
            defer { rest = rest.dropFirst(Moment.allCases.count) }
            return String(rest.prefix(Moment.allCases.count).map(Self.mark))
        }
        let classes = ProtectionClass.allCases.map(\.shortName)
        var lines = [Self.row("OPERATION", classes)]
        for operation in table.operations {
            let groups = classes.map { _ in marks() }
            let isTried = groups.contains { $0.contains { !"o-".contains($0) } }
            lines.append(Self.row(operation.rehearsal.rawValue, isTried ? groups : ["n/a"]))
        }
        lines += ["", Self.row("CLASS CHANGE", ["not open", "open"])]
        for change in table.classChanges {
            lines.append(Self.row("\(change.old.shortName) to \(change.new.shortName)", [marks(), marks()]))
        }
        return lines
    }

    /// Where the marks end, so that 80 columns are enough: what is wider begins further left.
    private static let ends = [48, 61, 74, 79]

    private static func row(_ name: String, _ columns: [String]) -> String {
        zip(columns, ends).reduce(name) { line, column in
            line + String(repeating: " ", count: max(1, column.1 - line.count - column.0.count)) + column.0
        }
    }

    private static func mark(_ entry: Entry) -> Character {
        switch entry.finding {
        case nil: "-"
        case .goes: "+"
        case .locked: "x"
        case .refused: "!"
        case .notApplicable: "o"
        case .other: "?"
        }
    }

    /// Every reason once for a row, every difference.
    private var remarks: [String] {
        var reasons: [String] = []
        var different: [String] = []
        for entry in entries {
            switch entry.verdict {
            case .notApplicable(let reason):
                let line = "n/a: \(entry.cell.attempt.row): \(reason)"
                if !reasons.contains(line) { reasons.append(line) }
            case .different:
                let found = entry.finding?.words ?? Mark.cannotArise.words
                different.append("different: \(entry.cell): expected \(entry.cell.expected.words), found \(found)")
            case .agreed, .cannotArise: break
            }
        }
        return (reasons.isEmpty ? [] : [""] + reasons) + (different.isEmpty ? [] : [""] + different)
    }

    private var summary: String {
        "\(entries.count) cells: \(count { $0 == .agreed }) agreed, \(differences) different, "
            + "\(count { $0 == .cannotArise }) cannot arise, \(notApplicable) n/a"
    }

    // MARK: JSON

    func printJSON() throws(Failure) {
        var document = JSONDocument(listing: "cells")
        for entry in entries { try document.add(Self.members(entry)) }
        try document.finish([
            (
                "counts",
                .object([
                    ("cells", .number(Int64(entries.count))), ("agreed", .number(Int64(count { $0 == .agreed }))),
                    ("different", .number(Int64(differences))),
                    ("cannotArise", .number(Int64(count { $0 == .cannotArise }))),
                    ("notApplicable", .number(Int64(notApplicable))),
                ])
            )
        ])
    }

    private static func members(_ entry: Entry) -> JSON {
        let what: [(String, JSON)] =
            switch entry.cell.attempt {
            case .operation(let rehearsal, let protectionClass):
                [("operation", .string(rehearsal.rawValue)), ("class", .string(protectionClass.shortName))]
            case .classChange(let old, let new, let isOpen):
                [("from", .string(old.shortName)), ("to", .string(new.shortName)), ("open", .bool(isOpen))]
            }
        let verdict =
            switch entry.verdict {
            case .agreed: "agreed"
            case .different: "different"
            case .cannotArise: "cannotArise"
            case .notApplicable: "notApplicable"
            }
        return .object(
            what + [
                ("state", .string(entry.cell.moment.rawValue)), ("expected", .string(entry.cell.expected.words)),
                ("found", entry.finding.map { .string($0.words) } ?? .null), ("verdict", .string(verdict)),
            ])
    }
}

extension Cell.Attempt {
    /// The name of the row.
    fileprivate var row: String {
        switch self {
        case .operation(let rehearsal, _): rehearsal.rawValue
        case .classChange: description
        }
    }
}
