import Conformance
import Glibc

/// Compares the library, or the command beside this program, with the table of what is allowed in which lock state, on the user's own disk.
///
/// A difference has status 71, *the system refused*: neither the request nor a file nor a setting is wrong, but the file system
/// does not do what it is asked to do.
struct CheckConformance: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: Companion.conformance.rawValue, abstract: Companion.conformance.abstract,
        discussion: """
            Tries every cell of the table of operations, classes and lock states. It uses a keybag of its own in a \
            hidden directory below DIR, and removes both afterwards. Your own keybag and files are not touched.

            Prints what was found, every difference from the table, and counts. The exit status is 71 if there is a \
            difference: protected files do not behave as they should on that file system.
            """)

    /// What is compared with the table.
    enum Way: String, ExpressibleByArgument, CaseIterable {
        case library, command
        case mount
        case mountBeside = "mount-beside"
    }

    @Argument(help: "A directory on the file system to check.")
    var directory: PathArgument
    @Option(
        help: ArgumentHelp(
            """
            Call the library; start protectfs for each step (slower); or use a mount, over the directory itself or \
            beside it, as a program that knows nothing of protectfs.
            """, valueName: "way"))
    var through = Way.library
    @Flag(help: "Print JSON: every cell, and the counts.")
    var json = false
    // Accepted as everywhere; the keybag is one of its own.
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        Interruption.watch()
        let table = try Self.table()
        let scratch = try Scratch(in: directory.path)
        Self.leaveTheUserAlone(scratch)
        // It goes last, when nothing in it is open any more.
        let report = try withExtendedLifetime(scratch) { try compare(with: table, in: scratch) }
        if json { try report.printJSON() } else { try report.print() }
        if report.differences > 0 { throw ExitStatus.systemRefused }
    }

    private func compare(with table: SemanticsTable, in scratch: Scratch) throws -> ConformanceReport {
        let stage = try Stage(in: scratch)
        if let refusal = stage.refusal {
            StandardError.line(
                .warning, "no keybag can be kept there, one among the temporary files is used: \(refusal.message)")
        }
        let command = try SiblingProgram.path("protectfs")
        let subject = try subject(stage, command)
        let run = ConformanceRun(stage, subject)
        var report = ConformanceReport(table)
        let cells = table.cells
        let progress = Progress("trying", total: Int64(cells.count), of: .cells)
        for (index, cell) in cells.enumerated() {
            report.add(cell, run.finding(cell))
            progress.show(Int64(index + 1))
            if Interruption.isRequested { throw Failure(.interrupted, "interrupted; nothing is left behind") }
        }
        progress.finish()
        return report
    }

    private func subject(_ stage: Stage, _ command: FilePath) throws -> any Subject {
        switch through {
        case .library: return LibrarySubject(stage, items: ItemsByCommand(stage, program: command))
        case .command: return CommandSubject(stage, program: command)
        case .mount, .mountBeside:
            do { return try MountSubject(stage, program: command, over: through == .mount) } catch {
                guard let refused = error as? MountSubject.Refused else { throw error }
                throw Failure(ExitStatus(rawValue: refused.status) ?? .unavailable, refused.message)
            }
        }
    }

    /// The keybag is not remembered among the user's, and the user's configuration has no say.
    private static func leaveTheUserAlone(_ scratch: Scratch) {
        for name in ["XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
            _ = scratch.path.appending("home").withPlatformString { setenv(name, $0, 1) }
        }
        unsetenv("PROTECTFS_KEYBAG")
    }

    private static func table() throws(Failure) -> SemanticsTable {
        do throws(SemanticsTable.Malformed) { return try .compiledIn() } catch {
            throw Failure(.bug, "semantics.txt, line \(error.line): \(error.reason)")
        }
    }
}
