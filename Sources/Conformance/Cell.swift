package import DataProtection

/// One cell of the table: what is tried, on a file of which class, when, and what must come of it.
package struct Cell: Sendable, Hashable {
    /// What is tried.
    package enum Attempt: Sendable, Hashable {
        case operation(Rehearsal, ProtectionClass)
        case classChange(from: ProtectionClass, to: ProtectionClass, isOpen: Bool)
    }

    package let attempt: Attempt
    package let moment: Moment
    package let expected: Mark
    /// Why it cannot be tried yet.
    package let unavailable: String?

    package init(attempt: Attempt, moment: Moment, expected: Mark, unavailable: String?) {
        (self.attempt, self.moment, self.expected, self.unavailable) = (attempt, moment, expected, unavailable)
    }
}

extension SemanticsTable {
    /// All cells, row by row.
    package var cells: [Cell] { operations.flatMap(\.cells) + classChanges.flatMap(\.cells) }
}

extension SemanticsTable.Operation {
    /// A to D, and the four moments of each.
    package var cells: [Cell] {
        zip(ProtectionClass.allCases, marks).flatMap { protectionClass, marks in
            zip(Moment.allCases, marks).map { moment, mark in
                Cell(
                    attempt: .operation(rehearsal, protectionClass), moment: moment, expected: mark,
                    unavailable: unavailable)
            }
        }
    }
}

extension SemanticsTable.ClassChange {
    /// The four moments without, then with an open handle.
    package var cells: [Cell] {
        [(closed, false), (open, true)].flatMap { marks, isOpen in
            zip(Moment.allCases, marks).map { moment, mark in
                Cell(
                    attempt: .classChange(from: old, to: new, isOpen: isOpen), moment: moment, expected: mark,
                    unavailable: nil)
            }
        }
    }
}

extension Cell: CustomStringConvertible {
    /// `open and read, complete, locked`.
    package var description: String { "\(attempt), \(moment.words)" }
}

extension Cell.Attempt: CustomStringConvertible {
    package var description: String {
        switch self {
        case .operation(let rehearsal, let protectionClass): "\(rehearsal.rawValue), \(protectionClass.shortName)"
        case .classChange(let old, let new, let isOpen):
            "from \(old.shortName) to \(new.shortName)\(isOpen ? ", open" : "")"
        }
    }
}

/// What came of a cell.
package enum Finding: Sendable, Hashable {
    case goes
    /// ENOKEY, with the facts that go with it.
    case locked
    /// EINVAL.
    case refused
    /// It cannot be tried in this way, and why.
    case notApplicable(String)
    /// Something that no cell says.
    case other(String)

    /// As people read it.
    package var words: String {
        switch self {
        case .goes: "it goes"
        case .locked: "ENOKEY"
        case .refused: "EINVAL"
        case .notApplicable(let reason): "n/a: \(reason)"
        case .other(let what): what
        }
    }
}

extension Mark {
    /// As people read it.
    package var words: String {
        switch self {
        case .goes: Finding.goes.words
        case .locked: Finding.locked.words
        case .refused: Finding.refused.words
        case .cannotArise: "cannot arise"
        }
    }
}
