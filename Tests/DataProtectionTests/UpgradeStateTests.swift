import Conformance
import Testing

@testable import DataProtection

/// What an upgrade does in each lock state follows from the table: it protects, or changes a class, or leaves alone.
@Suite struct UpgradeStateTests {
    private static let table = Result { try SemanticsTable.compiledIn() }
    private static let text = [UInt8](repeating: 0x63, count: 5_000)

    /// What the table lets come of a file; `old`: its class, nil if it is plaintext.
    private func expected(
        from old: ProtectionClass?, to new: ProtectionClass, at moment: Moment
    ) throws -> UpgradeResult.Outcome {
        if let old, old >= new { return .unchanged }
        let cells = try Self.table.get().cells.filter { cell in
            switch cell.attempt {
            case .operation(.protect, new): old == nil
            case .classChange(old, new, isOpen: false): true
            default: false
            }
        }
        let cell = try #require(cells.first { $0.moment == moment })
        guard cell.expected == .goes else { return .queued }
        return old.map { .raised(from: $0) } ?? .converted
    }

    @Test(arguments: Moment.allCases, ProtectionClass.allCases)
    func everyCell(_ moment: Moment, _ new: ProtectionClass) async throws {
        let tree = try UpgradeTree()
        let bed = tree.bed
        let kinds: [(String, ProtectionClass?)] = [("plain", nil)] + ProtectionClass.allCases.map { ($0.shortName, $0) }
        for (name, old) in kinds {
            if let old { try bed.make(name, old, Self.text) } else { try bed.makePlain(name, Self.text) }
        }
        try bed.begin(moment)

        let upgrade = try bed.keybag.upgrade(directory: bed.directory, to: new)
        let found = await tree.results(of: upgrade)
        for (name, old) in kinds {
            #expect(found[name] == (try expected(from: old, to: new, at: moment)), "\(name)")
        }
        let queued = found.values.filter { $0 == .queued }.count
        #expect(upgrade.summary.queued == queued)
        #expect(bed.keybag.queuedWorkCount == (queued > 0 ? 1 : 0))

        // What was queued is done after an unlock, and everything is as it was, under the class that it should have.
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == (queued > 0 ? [.done] : []))
        for (name, old) in kinds {
            let info = try ProtectedFileInfo(of: bed.path(name))
            #expect(info.protectionClass == max(old ?? new, new), "\(name)")
            #expect(try bed.read(bed.path(name)) == Self.text, "\(name)")
        }
    }
}
