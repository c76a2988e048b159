package import DataProtection

/// When something is tried: the lock states, and the grace of a lock that is armed but not due.
package enum Moment: String, Sendable, Hashable, CaseIterable {
    case beforeFirstUnlock, unlocked, grace, locked

    /// What the kernel keyring holds then.
    package var state: ProtectionState {
        switch self {
        case .beforeFirstUnlock: .beforeFirstUnlock
        case .unlocked, .grace: .unlocked
        case .locked: .locked
        }
    }

    /// As people say it.
    package var words: String { self == .beforeFirstUnlock ? "before first unlock" : rawValue }
}

/// What a cell of the table says.
package enum Mark: Character, Sendable, Hashable {
    case goes = "+"
    /// ENOKEY: an unlock helps.
    case locked = "x"
    /// EINVAL in every state.
    case refused = "!"
    case cannotArise = "-"
}

/// The table of operations × classes × lock states that everything is held against: `semantics.txt`, compiled in.
package struct SemanticsTable: Sendable {
    /// One mark for each moment, in the order of ``Moment``.
    package typealias Marks = [Mark]

    /// An operation, and what it meets.
    package struct Operation: Sendable {
        package let rehearsal: Rehearsal
        /// For A, B, C, D.
        package let marks: [Marks]
        /// Why nothing can be tried yet.
        package let unavailable: String?
    }

    /// A change of class, and what it meets.
    package struct ClassChange: Sendable {
        package let old, new: ProtectionClass
        /// Nobody has the file open.
        package let closed: Marks
        /// Somebody has.
        package let open: Marks
    }

    package private(set) var operations: [Operation] = []
    package private(set) var classChanges: [ClassChange] = []

    /// A line that makes no sense.
    package struct Malformed: Error, Hashable {
        /// From 1.
        package let line: Int
        package let reason: String
    }

    /// The table that was compiled in.
    package static func compiledIn() throws(Malformed) -> SemanticsTable {
        try SemanticsTable(parsing: String(decoding: PackageResources.semantics_txt, as: UTF8.self))
    }

    /// Reads a table: its layout is explained at the head of `semantics.txt`.
    package init(parsing text: String) throws(Malformed) {
        var section = ""
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let number = index + 1
            let words = line.split(separator: " ").map(String.init)
            guard let first = words.first, !first.hasPrefix("#") else { continue }
            if first.hasPrefix("[") {
                section = String(line)
            } else if first == "n/a:" {
                try setAside(words.dropFirst().joined(separator: " "), number)
            } else if section == "[operations]" {
                try addOperation(words, number)
            } else if section == "[class changes]" {
                try addClassChange(words, number)
            } else {
                throw Malformed(line: number, reason: "it is in no section")
            }
        }
    }

    private mutating func addOperation(_ words: [String], _ line: Int) throws(Malformed) {
        let name = words.dropLast(4).joined(separator: " ")
        guard let rehearsal = Rehearsal(rawValue: name) else {
            throw Malformed(line: line, reason: "there is no operation \"\(name)\"")
        }
        var marks: [Marks] = []
        for word in words.suffix(4) { marks.append(try Self.marks(word, line)) }
        operations.append(Operation(rehearsal: rehearsal, marks: marks, unavailable: nil))
    }

    private mutating func setAside(_ reason: String, _ line: Int) throws(Malformed) {
        guard let last = operations.popLast(), classChanges.isEmpty else {
            throw Malformed(line: line, reason: "no operation stands above it")
        }
        operations.append(Operation(rehearsal: last.rehearsal, marks: last.marks, unavailable: reason))
    }

    private mutating func addClassChange(_ words: [String], _ line: Int) throws(Malformed) {
        guard words.count == 4, let old = ProtectionClass(name: words[0]), let new = ProtectionClass(name: words[1])
        else { throw Malformed(line: line, reason: "it is not: class, class, marks, marks") }
        classChanges.append(
            ClassChange(
                old: old, new: new, closed: try Self.marks(words[2], line), open: try Self.marks(words[3], line)))
    }

    private static func marks(_ word: String, _ line: Int) throws(Malformed) -> Marks {
        let marks = word.compactMap(Mark.init(rawValue:))
        guard marks.count == Moment.allCases.count, word.count == marks.count else {
            throw Malformed(line: line, reason: "\"\(word)\" is not four of the marks + x ! -")
        }
        return marks
    }
}
