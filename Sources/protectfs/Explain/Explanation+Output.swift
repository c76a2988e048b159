import DataProtection

extension Explanation {
    /// What it is, what would go and why, what would help.
    var report: Report {
        var report = Report(title: title)
        report.rows = facts
        report.rows += actions.map { ($0.name, ($0.isPossible ? "yes" : "no") + ($0.reason.map { ": \($0)" } ?? "")) }
        for one in stronger {
            let now = "now: \(Self.words(one.now))"
            let still = one.now == one.whileLocked ? now : "\(now); while locked: \(Self.words(one.whileLocked))"
            report.rows.append(("as \(one.protectionClass.shortName)", still))
        }
        if let help { report.rows.append(("would help", help)) }
        report.members =
            [("kind", .string(kind)), ("summary", .string(title))] + members + [
                ("actions", .array(actions.map(Self.object))), ("stronger", .array(stronger.map(Self.object))),
                ("wouldHelp", help.map { .string($0) } ?? .null),
            ]
        return report
    }

    private static func object(_ action: Action) -> JSON {
        .object([
            ("action", .string(action.name)), ("possible", .bool(action.isPossible)),
            ("reason", action.reason.map { .string($0) } ?? .null),
        ])
    }

    private static func object(_ one: StrongerClass) -> JSON {
        .object([
            ("class", .string(one.protectionClass.shortName)), ("now", list(one.now)),
            ("whileLocked", list(one.whileLocked)),
        ])
    }

    private static func list(_ operations: [FileOperation]) -> JSON { .array(operations.map { .string($0.rawValue) }) }

    private static func words(_ operations: [FileOperation]) -> String {
        let names = operations.map { operation in
            switch operation {
            case .openToRead: "read"
            case .openToWrite: "write"
            case .useHandle: "go on while open"
            default: operation.rawValue
            }
        }
        return names.isEmpty ? "nothing" : names.joined(separator: ", ")
    }
}
