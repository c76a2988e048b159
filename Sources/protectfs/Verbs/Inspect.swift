import ArgumentParser
import DataProtection

/// What stored bytes say, for whoever wonders about a file.
struct Inspect: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inspect", abstract: "Show the stored metadata of a protected file or a keybag.",
        discussion: """
            Works in every lock state and on damaged files: shows what can be read and names what is damaged. The \
            exit status is 65 if anything is. Without the class key nothing can be authenticated, and the output \
            says "unverified". Shows no keys, not even wrapped ones. A directory is taken for a keybag.
            """)

    @Argument(help: "Protected files, copies of keybags, or keybag directories.")
    var paths: [PathsArgument]
    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let keybags = Keybags(keybag)
        let outcome = Outcome()
        try Report.print(on: paths.paths, asJSON: json, recording: outcome) { path throws(DataProtectionError) in
            try report(on: path, keybags, outcome)
        }
    }

    private func report(
        on path: FilePath, _ keybags: Keybags, _ outcome: Outcome
    ) throws(DataProtectionError) -> Report {
        if try NamedItem(following: path).kind == .directory || KeybagInspection.isKeybag(path) {
            let keybag = try KeybagInspection(of: path)
            for failure in keybag.failures { outcome.record(failure) }
            return Report(keybag)
        }
        var file = try FileInspection(of: path, keybag: nil)
        let keybag = file.identity.flatMap { keybags.named($0.keybag) }
        if let keybag {
            if keybags.isOther(keybag) { keybags.warn(of: keybag, reading: path) }
            file = try FileInspection(of: path, keybag: keybag)
        }
        if let problem = file.problem {
            outcome.record(problem)
        } else if case .refused(let error) = file.authenticity {
            outcome.record(error)
        }
        return Report(file, keybag)
    }
}
