import DataProtection

extension Explanation {
    /// What it is, what would go and why, what would help.
    func lines(named path: FilePath) -> [[UInt8]] {
        var lines = [listed(path) + Array(": \(title)".utf8)]
        var rows = facts
        rows += actions.map { ($0.name, ($0.isPossible ? "yes" : "no") + ($0.reason.map { ": \($0)" } ?? "")) }
        for one in stronger {
            let now = "now: \(Self.words(one.now))"
            let still = one.now == one.whileLocked ? now : "\(now); while locked: \(Self.words(one.whileLocked))"
            rows.append(("as \(one.protectionClass.shortName)", still))
        }
        if let help { rows.append(("would help", help)) }
        let width = rows.map(\.name.count).max() ?? 0
        for row in rows {
            let padding = String(repeating: " ", count: width + 2 - row.name.count)
            lines.append(Array("  \(row.name)\(padding)\(row.text)".utf8))
        }
        return lines
    }

    func members(named path: FilePath) -> JSON {
        let actions = actions.map { action in
            JSON.object([
                ("action", .string(action.name)), ("possible", .bool(action.isPossible)),
                ("reason", action.reason.map { .string($0) } ?? .null),
            ])
        }
        let stronger = stronger.map { one in
            JSON.object([
                ("class", .string(one.protectionClass.shortName)), ("now", Self.list(one.now)),
                ("whileLocked", Self.list(one.whileLocked)),
            ])
        }
        return .object(
            JSON.members(of: path) + [("kind", .string(kind)), ("summary", .string(title))] + members + [
                ("actions", .array(actions)), ("stronger", .array(stronger)),
                ("wouldHelp", help.map { .string($0) } ?? .null),
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
