import Conformance
import DataProtection
import Testing

@Suite("Conformance: the table is read as it is written")
struct SemanticsTableTests {
    @Test func marks() throws {
        let table = try SemanticsTable(
            parsing: """
                # a comment
                [operations]
                open and read    x++x  x++x  -+!+  ++++
                    n/a: not yet
                [class changes]
                complete none    x+++  -+++
                """)
        let row = try #require(table.operations.first)
        #expect(row.rehearsal == .openToRead && row.unavailable == "not yet")
        #expect(row.marks[2] == [.cannotArise, .goes, .refused, .goes])
        #expect(row.cells.count == 16 && row.cells[3].expected == .locked && row.cells[3].moment == .locked)
        #expect(row.cells[3].description == "open and read, complete, locked")
        let change = try #require(table.classChanges.first)
        #expect(change.old == .complete && change.new == .none && change.closed[0] == .locked)
        #expect(change.cells[4].description == "from complete to none, open, before first unlock")
    }

    @Test(arguments: [
        ("open and read x++x x++x x++x ++++", 1, "it is in no section"),
        ("[operations]\nopen and dream x++x x++x x++x ++++", 2, "there is no operation \"open and dream\""),
        ("[operations]\nstat x++ ++++ ++++ ++++", 2, "\"x++\" is not four of the marks + x ! -"),
        ("[operations]\nstat x+?x ++++ ++++ ++++", 2, "\"x+?x\" is not four of the marks + x ! -"),
        ("[operations]\n    n/a: why", 2, "no operation stands above it"),
        ("[class changes]\ncomplete some ++++ ++++", 2, "it is not: class, class, marks, marks"),
        ("[class changes]\ncomplete none ++++", 2, "it is not: class, class, marks, marks"),
    ])
    func malformed(_ text: String, _ line: Int, _ reason: String) {
        let error = #expect(throws: SemanticsTable.Malformed.self) { _ = try SemanticsTable(parsing: text) }
        #expect(error?.line == line)
        #expect(error?.reason == reason)
    }

    @Test("Every mark of the table is told apart from every other finding")
    func verdicts() {
        let pairs: [(Mark, Finding?)] = [
            (.goes, .goes), (.locked, .locked), (.refused, .refused), (.cannotArise, nil),
        ]
        for (mark, _) in pairs {
            let cell = Cell(
                attempt: .operation(.stat, .complete), moment: .locked, expected: mark, unavailable: nil)
            for (other, finding) in pairs {
                let verdict: Verdict = mark != other ? .different : mark == .cannotArise ? .cannotArise : .agreed
                #expect(Verdict(cell, finding) == verdict, "\(mark), \(other)")
            }
            #expect(Verdict(cell, .other("ENOKEY, but …")) == .different)
            #expect(Verdict(cell, .notApplicable("why")) == .notApplicable("why"))
        }
    }

    @Test("Every operation has a row, and one only")
    func complete() throws {
        #expect(try SemanticsTable.compiledIn().operations.map(\.rehearsal) == Rehearsal.allCases)
    }

    @Test("Grace is unlocked, as far as it goes: nothing differs in the two columns")
    func grace() throws {
        let table = try SemanticsTable.compiledIn()
        for marks in table.operations.flatMap(\.marks) + table.classChanges.flatMap({ [$0.closed, $0.open] }) {
            #expect(marks[1] == marks[2])
        }
    }
}
