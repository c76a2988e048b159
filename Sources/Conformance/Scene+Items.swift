import DataProtection

/// Secrets of the accessibility that has a class's lock states.
extension Scene {
    func useItem(_ rehearsal: Rehearsal) throws -> Finding {
        // Stages are used again, and what was stored is still there.
        let account = "\(UInt64.random(in: 0...UInt64.max))"
        let (old, new) = (Array(Self.text[..<1000]), Array(Self.text[1000..<1500]))
        if rehearsal != .addItem { try subject.addItem(account, as: protectionClass, old) }
        var expected: [UInt8]? = rehearsal == .addItem ? nil : old
        let finding = try act {
            switch rehearsal {
            case .addItem: try subject.addItem(account, as: protectionClass, new)
            case .updateItem: try subject.updateItem(account, new)
            default: guard try subject.readItem(account) == old else { throw Contradiction("it has another value") }
            }
        }
        guard finding == .goes || finding == .locked else { return finding }
        if finding == .goes, rehearsal != .readItem { expected = new }
        try subject.enter(.unlocked)
        guard let expected else {
            // Nothing of it is there: it can be added.
            try subject.addItem(account, as: protectionClass, old)
            return finding
        }
        guard try subject.readItem(account) == expected else {
            return .other("\(finding.words), but it has another value then")
        }
        return finding
    }
}
