import Conformance
import DataProtection
import Foundation
import TestEffort
import Testing

/// Every cell of the table is one case, for the library and for the command.
@Suite("Conformance: operations, classes and lock states")
struct ConformanceTests {
    private static let table = Result { try SemanticsTable.compiledIn() }
    private static let operations = ((try? table.get())?.operations ?? []).flatMap(\.cells)
    private static let classChanges = ((try? table.get())?.classChanges ?? []).flatMap(\.cells)

    @Test("There are as many cells as the document has")
    func counts() throws {
        _ = try Self.table.get()
        #expect(Self.operations.count == 16 * Rehearsal.allCases.count)
        #expect(Self.classChanges.count == 16 * 8)
    }

    @Test("The library does what the table says of an operation", arguments: operations)
    func libraryOperation(_ cell: Cell) throws {
        try expect(cell) { LibrarySubject($0, items: try StoredItems($0.keybag)) }
    }

    @Test("The library does what the table says of a change of class", arguments: classChanges)
    func libraryClassChange(_ cell: Cell) throws { try expect(cell) { LibrarySubject($0) } }

    // Each cell starts several processes: a seventh of the cells each day. All of them: .ci/long.
    @Test("The command does what the table says of an operation", arguments: Effort.slice(of: operations))
    func commandOperation(_ cell: Cell) throws { try expect(cell, command) }

    @Test("The command does what the table says of a change of class", arguments: Effort.slice(of: classChanges))
    func commandClassChange(_ cell: Cell) throws { try expect(cell, command) }

    private func command(_ stage: Stage) -> any Subject {
        CommandSubject(stage, program: FilePath(CommandSandbox.executable))
    }

    private func expect(_ cell: Cell, _ subject: (Stage) throws -> any Subject) throws {
        try StagePool.shared.with { stage in
            let finding = ConformanceRun(stage, try subject(stage)).finding(cell)
            let verdict = Verdict(cell, finding)
            #expect(
                verdict != .different, "\(cell): expected \(cell.expected.words), found \(finding?.words ?? "nothing")")
        }
    }
}

/// What is left out, and why: nothing may go missing quietly.
@Suite("Conformance: operations that cannot be tried")
struct ConformanceGapTests {
    @Test("Rows without a feature are those that are known, and each says why")
    func unavailable() throws {
        let rows = try SemanticsTable.compiledIn().operations.filter { $0.unavailable != nil }
        #expect(rows.map(\.rehearsal) == [.exchange])
        #expect(rows.allSatisfy { $0.unavailable?.isEmpty == false })
    }

    @Test("The library leaves no other cell out but mappings, which only a mount has", arguments: Rehearsal.allCases)
    func library(_ rehearsal: Rehearsal) throws {
        if [.newMapping, .existingMapping].contains(rehearsal) { return }
        let row = try #require(try SemanticsTable.compiledIn().operations.first { $0.rehearsal == rehearsal })
        guard row.unavailable == nil, let cell = row.cells.first(where: { $0.expected == .goes }) else { return }
        try StagePool.shared.with { stage in
            let subject = LibrarySubject(stage, items: try StoredItems(stage.keybag))
            #expect(ConformanceRun(stage, subject).finding(cell) == .goes)
        }
    }
}
