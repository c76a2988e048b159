import ArgumentParser
import DataProtection
import Glibc

/// Opens everything, to know that it can be opened.
struct Verify: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify", abstract: "Check every byte of protected files.",
        discussion: """
            Prints nothing if both heads of each file are equal, the length is right and every chunk opens. The exit \
            status is 75 if a file was not closed by its last writer: all its contents are there. It is also 75 if a \
            file is being written to. It is 65 for damage, for bytes that another program has appended, and for \
            anything that may hide later changes.

            In a directory, files that are not protected are counted. They are named if the default class of their \
            directory says that they should be protected. Nothing is repaired.
            """)

    @Argument(help: "Files; with --recursive also directories.")
    var paths: [PathsArgument]
    @Flag(name: [.customShort("r"), .long], help: "Include everything below each directory, on the same file system.")
    var recursive = false
    @Flag(help: "Also refuse files that could have been made with only the public key of class unless-open.")
    var strict = false
    @OptionGroup var jobs: JobsOption
    @Flag(help: "Print JSON: every file, and a summary.")
    var json = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        Interruption.watch()
        let roots = try paths.stored().compactMap(root)
        let total = isatty(2) == 1 ? bytes(below: roots) : 0
        let run = VerificationRun(
            keybags: Keybags(keybag), threads: jobs.threads, isStrict: strict,
            isJSON: json, total: total)
        for root in roots where !Interruption.isRequested { visit(root, run) }
        try run.finish(isList: recursive || roots.count > 1)
    }

    /// A link that was named is followed.
    private func root(_ path: FilePath) throws(Failure) -> FilePath? {
        guard let item = try? NamedItem(following: path), item.kind == .directory else { return path }
        guard recursive else {
            throw Failure(.usage, "\(quoted(path)) is a directory", hint: "with everything below it: --recursive")
        }
        return (try? NamedItem(path).kind) == .link ? path.appending(".") : path
    }

    private func visit(_ root: FilePath, _ run: VerificationRun) {
        guard (try? NamedItem(root).kind) == .directory else { return run.add(root, nil) }
        TreeWalk(crossesFileSystems: false).walk(root, recordingIn: run.outcome) { item in
            if item.kind == .file { run.add(item.path, item.entry) }
            return Interruption.isRequested ? .stop : .goOn
        }
    }

    private func bytes(below roots: [FilePath]) -> Int64 {
        var bytes: Int64 = 0
        for root in roots {
            TreeWalk(crossesFileSystems: true).walk(root, recordingIn: nil) { item in
                if item.kind == .file { bytes = bytes.adding(size: item.size) }
                return Interruption.isRequested ? .stop : .goOn
            }
        }
        return bytes
    }
}
