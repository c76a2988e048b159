import CommandLanguage
import Foundation

/// The verbs and options of the built programs, as they say them themselves: `--experimental-dump-help`.
struct CommandSurface {
    /// A verb, `recovery new` for instance.
    struct Verb {
        let name: String
        /// What it does, in one line.
        let abstract: String
        /// `--keybag`, `-r` …, without help and version.
        let options: Set<String>
        /// For each option all its names.
        let spellings: [Set<String>]
        /// Options and arguments that say nothing about themselves.
        let unexplained: [String]
    }

    /// Every verb that does something, so none that only groups others; without those that help does not show.
    let verbs: [Verb]

    /// - Throws: if the program does not say.
    static func ofProgram() throws -> CommandSurface {
        let sandbox = try CommandSandbox(makesKeybag: false)
        var verbs: [Verb] = []
        // The programs beside the command know the verbs that they perform.
        for program in ["protectfs"] + Companion.allCases.map(\.program) {
            let done = try sandbox.shell("exec \"${PROTECTFS%/*}/$0\" --experimental-dump-help", [program])
            guard done.status == 0 else { throw CommandSandbox.Unexpected(done.errors) }
            let root = try JSONDecoder().decode(Dump.self, from: done.output).command
            // The command declares theirs for help alone.
            let ignored = ["help"] + (program == "protectfs" ? Companion.allCases.map(\.rawValue) : [])
            verbs += root.leaves(under: []).filter { !ignored.contains($0.name) }
        }
        return CommandSurface(verbs: verbs)
    }

    private struct Dump: Decodable { let command: Command }

    private struct Command: Decodable {
        let commandName: String
        let shouldDisplay: Bool
        let abstract: String?
        let arguments: [Argument]?
        let subcommands: [Command]?

        func leaves(under parents: [String]) -> [Verb] {
            guard shouldDisplay else { return [] }
            guard let subcommands, !subcommands.isEmpty else { return [verb(parents.joined(separator: " "))] }
            return subcommands.flatMap { $0.leaves(under: parents + [$0.commandName]) }
        }

        private func verb(_ name: String) -> Verb {
            let shown = (arguments ?? []).filter { $0.shouldDisplay && !["help", "version"].contains($0.valueName) }
            let spellings = shown.map { Set(($0.names ?? []).map(\.spelling)) }
            return Verb(
                name: name, abstract: abstract ?? "", options: spellings.reduce([]) { $0.union($1) },
                spellings: spellings.filter { !$0.isEmpty },
                unexplained: shown.filter { $0.abstract?.isEmpty ?? true }.map { $0.valueName ?? "?" })
        }
    }

    private struct Argument: Decodable {
        let abstract: String?
        let names: [Name]?
        let shouldDisplay: Bool
        let valueName: String?
    }

    private struct Name: Decodable {
        let kind: String
        let name: String

        var spelling: String { (kind == "long" ? "--" : "-") + name }
    }
}
