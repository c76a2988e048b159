import ArgumentParser
import DataProtection
import Glibc

/// Puts redo records in their places, without a key. Not shown in help: it is never necessary.
struct Repair: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "repair", abstract: "Apply the redo records that a killed writer left in a file.",
        discussion: """
            Needs no key and is never necessary: programs read such a file whole without it, and the next writer \
            applies the records too. Use it before a block-level backup, or after a power cut. The records stay in \
            force until the next writer ends them, so verify still says that the file was not closed.

            Directories are repaired recursively, on the same file system. In a directory, files that are not \
            protected or that are being written to are left alone. While a file is repaired, it is busy for other \
            writers.
            """,
        shouldDisplay: false)

    @Argument(help: "Files and directories, recursively (default: the current directory).")
    var paths: [PathsArgument] = []
    @Flag(help: "Print JSON: every file that had records, and how many chunks were applied.")
    var json = false

    func run() throws {
        Interruption.watch()
        let outcome = Outcome()
        var entries: [JSON] = []
        let roots = try (paths.isEmpty ? [StoredPlace.of(".")] : paths.stored()).map(Self.root)
        let progress = Progress("repairing", total: isatty(2) == 1 ? RotationRun.count(below: roots) : 0, of: .files)
        for root in roots {
            TreeWalk(crossesFileSystems: false).walk(root, recordingIn: outcome) { item in
                let isNamed = item.path == root
                if item.kind == .file || isNamed && item.kind != .directory {
                    let count = repair(item, isNamed: isNamed, outcome)
                    if count > 0 {
                        entries.append(.object(JSON.members(of: item.path) + [("chunks", .number(Int64(count)))]))
                    }
                    progress.show(progress.done + 1)
                }
                return Interruption.isRequested ? .stop : .goOn
            }
        }
        progress.finish()
        if json { try JSON.array(entries).print() }
        if Interruption.isRequested {
            StandardError.line(.warning, "interrupted; the other files were not checked")
            throw ExitStatus.interrupted
        }
        try outcome.leave()
    }

    /// A link that was named is followed.
    private static func root(_ path: FilePath) -> FilePath {
        (try? NamedItem(path).kind) == .link ? path.canonical ?? path : path
    }

    /// - Returns: how many chunks were put in place.
    private func repair(_ item: NamedItem, isNamed: Bool, _ outcome: Outcome) -> Int {
        do throws(DataProtectionError) {
            guard let entry = item.entry else { return try ProtectedFile.repair(fileAt: item.path) }
            return try ProtectedFile.repair(entry)
        } catch {
            switch error {
            case .notProtected, .busy: if isNamed { outcome.record(error) }
            default: outcome.record(error)
            }
            return 0
        }
    }
}
