import Testing

@testable import DataProtection

/// What a class key can be when something is tried: the three states, and the grace of a lock that is armed.
enum Moment: String, CaseIterable, Sendable {
    case beforeFirstUnlock, unlocked, grace, locked

    var state: ProtectionState {
        switch self {
        case .beforeFirstUnlock: .beforeFirstUnlock
        case .unlocked, .grace: .unlocked
        case .locked: .locked
        }
    }
}

extension FileTestBed {
    func begin(_ moment: Moment) throws {
        try enter(moment.state)
        if moment == .grace { _ = try #require(try keybag.armLock(seconds: 60)) }
    }
}

/// One cell of the table of operations: which class, when, and whether it goes.
struct Cell: CustomTestStringConvertible, Sendable {
    let operation: String
    let protectionClass: ProtectionClass
    let moment: Moment
    let isAllowed: Bool

    var testDescription: String {
        "\(operation), \(protectionClass), \(moment): \(isAllowed ? "goes" : "locked")"
    }

    /// A row: for A, B, C, D what goes before first unlock, unlocked (and in grace), locked. `y` goes, `n` is locked,
    /// `-` cannot come up.
    static func row(_ operation: String, _ a: String, _ b: String, _ c: String, _ d: String) -> [Cell] {
        zip(ProtectionClass.allCases, [a, b, c, d]).flatMap { protectionClass, marks in
            Moment.allCases.compactMap { moment in
                let column: [ProtectionState] = [.beforeFirstUnlock, .unlocked, .locked]
                let mark = Array(marks)[column.firstIndex(of: moment.state)!]
                guard mark != "-" else { return nil }
                return Cell(
                    operation: operation, protectionClass: protectionClass, moment: moment, isAllowed: mark == "y")
            }
        }
    }

    /// Expects what the cell says of `body`; if it is *locked*, with the facts.
    func expect(
        _ path: FilePath, _ operation: DataProtection.Operation, at location: SourceLocation = #_sourceLocation,
        _ body: () throws -> Void
    ) {
        if isAllowed {
            #expect(throws: Never.self, "\(testDescription)", sourceLocation: location, performing: body)
            return
        }
        let error = #expect(
            throws: DataProtectionError.self, "\(testDescription)", sourceLocation: location, performing: body)
        guard case .locked(let named, let theClass, let what, let state, let since) = error else {
            Issue.record("\(testDescription): \(String(describing: error))", sourceLocation: location)
            return
        }
        #expect(named == path && theClass == protectionClass && what == operation, sourceLocation: location)
        #expect(state == moment.state, sourceLocation: location)
        #expect((since ?? 0) > 1_500_000_000, "since when", sourceLocation: location)
        #expect(error?.errno.rawValue == 126, "ENOKEY", sourceLocation: location)
    }
}
