import Conformance
import DataProtection
import Foundation
import TestEffort
import Testing

/// The table, for a program that knows nothing of protectfs and uses a mount.
@Suite("Conformance: a mount", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct ConformanceMountTests {
    /// What a program cannot ask of a file system, or only of a directory, which gives no class none.
    private static let notApplicable: Set<Rehearsal> = [
        .copyCiphertext, .protect, .unprotect, .rekey, .readItem, .addItem, .updateItem, .exchange,
    ]

    // A seventh of the cells each day, in one mount: the states are entered one after the other.
    @Test("A mount does what the table says, over the directory itself and beside it", arguments: [true, false])
    func cells(isOver: Bool) throws {
        let cells = try Effort.slice(of: SemanticsTable.compiledIn().cells)
        try StagePool.shared.with { stage in
            let subject = try MountSubject(stage, program: FilePath(CommandSandbox.executable), over: isOver)
            let run = ConformanceRun(stage, subject)
            for cell in cells {
                let finding = run.finding(cell)
                #expect(
                    Verdict(cell, finding) != .different,
                    "\(cell): expected \(cell.expected.words), found \(finding?.words ?? "nothing")")
            }
        }
    }

    @Test("Only operations that a program cannot ask of a file system are left out")
    func gaps() throws {
        let sandbox = try CommandSandbox()
        _ = try sandbox.shell("mkdir somewhere")
        let done = try sandbox.run("conformance", "--through", "mount", "--json", "somewhere")
        let answer = try #require(try done.json() as? [String: Any])
        let cells = try #require(answer["cells"] as? [[String: Any]])
        let differing = cells.filter { $0["verdict"] as? String == "different" }
        #expect(done.status == 0 && done.errors.isEmpty, "\(done.errors)\(differing)")
        let left = cells.filter { $0["verdict"] as? String == "notApplicable" }
        let rows = Set(left.compactMap { $0["operation"] as? String }.compactMap { Rehearsal(rawValue: $0) })
        let withoutNone: Set<Rehearsal> = [
            .create, .createInherited, .readCreated, .writeCreated, .appendCreated, .truncateCreated, .openAfterCreated,
            .setDirectoryClass, .copy,
        ]
        #expect(rows.isSubset(of: Self.notApplicable.union(withoutNone)), "\(rows)")
        for row in left where row["class"] as? String != "none" {
            let name = row["operation"] as? String ?? "a change of class"
            #expect(Rehearsal(rawValue: name).map(Self.notApplicable.contains) == true, "\(row)")
        }
    }
}
