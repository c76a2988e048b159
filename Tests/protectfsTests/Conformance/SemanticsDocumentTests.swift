import Conformance
import DataProtection
import Foundation
import Testing

@Suite("Conformance: docs/reference/SEMANTICS.md and the table say the same")
struct SemanticsDocumentTests {
    /// The cells of the rows of all tables, without decoration.
    private let rows: [[String]]
    private let table: SemanticsTable

    init() throws {
        table = try .compiledIn()
        rows = try Checkout.text("docs/reference/SEMANTICS.md").split(separator: "\n").filter { $0.hasPrefix("| ") }.map
        { line in
            line.split(separator: "|").map { $0.replacing("`", with: "").trimmingCharacters(in: .whitespaces) }
        }.filter { ["✓", "✗", "!", "–"].contains($0.last?.prefix(1) ?? "") }
    }

    private static func spoken(_ marks: SemanticsTable.Marks) -> String {
        let signs: [Mark: String] = [.goes: "✓", .locked: "✗", .refused: "!", .cannotArise: "–"]
        return marks.map { signs[$0]! }.joined()
    }

    @Test("Row by row, and no other rows")
    func rowByRow() {
        let operations = table.operations.map { row in
            [row.rehearsal.rawValue + (row.unavailable == nil ? "" : " *")] + row.marks.map(Self.spoken)
        }
        let changes = table.classChanges.map { change in
            [change.old.shortName, change.new.shortName, Self.spoken(change.closed), Self.spoken(change.open)]
        }
        #expect(rows.filter { $0.count == 5 } == operations)
        #expect(rows.filter { $0.count == 4 } == changes)
        #expect(rows.count == operations.count + changes.count)
    }
}
