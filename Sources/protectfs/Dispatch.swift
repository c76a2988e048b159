import ArgumentParser
import DataProtection
import Glibc

/// Programs beside this one that perform a verb, as git has them: `protectfs VERB` becomes `protectfs-VERB`.
///
/// They are never looked for anywhere else. Anyone who can write to this directory can replace this program too.
enum Dispatch {
    /// Replaces this process if the words name such a program.
    ///
    /// - Throws: status 69 if the program of a ``Companion`` is not installed; 71 if a program does not start.
    static func becomeProgram(namedBy words: [String]) throws(Failure) {
        let asksForHelp = words.first == "help"
        guard let name = words.dropFirst(asksForHelp ? 1 : 0).first, let program = program(for: name) else { return }
        let help = asksForHelp ? [Array("--help".utf8)] : []
        throw SiblingProgram.become(program, rawArguments(from: asksForHelp ? 3 : 2) + help)
    }

    /// The program that performs a verb, if another one does.
    private static func program(for verb: String) -> String? {
        if let companion = Companion(rawValue: verb) { return companion.program }
        let isName = verb.first != "-" && verb.allSatisfy { $0 == "-" || ("a"..."z").contains($0) }
        let isOurs = Protectfs.configuration.subcommands.contains { $0.configuration.commandName == verb }
        guard isName, !isOurs, let command = try? SiblingProgram.command() else { return nil }
        let name = "protectfs-\(verb)"
        let path = command.removingLastComponent().appending(name)
        return path.withPlatformString { access($0, X_OK) } == 0 ? name : nil
    }

    /// The arguments as they came, byte for byte.
    private static func rawArguments(from first: Int) -> [[UInt8]] {
        (first..<max(first, Int(CommandLine.argc))).compactMap { index in
            CommandLine.unsafeArgv[index].map { Array(UnsafeRawBufferPointer(start: $0, count: strlen($0))) }
        }
    }

    /// The completion script of all verbs, if the words ask for one.
    ///
    /// What the programs beside this one print takes the place of ``SecretCompanion`` and its like.
    ///
    /// - Returns: nil if they do not, or name a shell that the parser refuses.
    static func completionScript(askedForBy words: [String]) throws -> String? {
        let option = "--generate-completion-script"
        guard let parts = words.first?.split(separator: "=", maxSplits: 1), parts.first.map({ $0 == option }) == true
        else { return nil }
        let name = parts.count == 2 ? String(parts[1]) : words.dropFirst().first
        guard let shell = name.map({ CompletionShell(rawValue: $0) }) ?? CompletionShell.autodetected() else {
            return nil
        }
        var script = CompletionScript(Protectfs.completionScript(for: shell))
        for companion in Companion.allCases {
            guard let text = try text([option, shell.rawValue], of: companion) else { continue }
            script.take(companion.rawValue, from: CompletionScript(text))
        }
        return script.text
    }

    /// What a program beside this one prints.
    ///
    /// - Returns: nil if it is not installed, and, after a warning, if it does not run: a library may be missing.
    private static func text(_ words: [String], of companion: Companion) throws(Failure) -> String? {
        let path: FilePath
        do throws(Failure) { path = try SiblingProgram.path(companion.program) } catch {
            guard error.status == .unavailable else { throw error }
            return nil
        }
        let started = try StartedProgram(path, words)
        let text = try started.text("completion script")
        if started.end() == 0 { return text }
        StandardError.line(
            .warning, "\(quoted(path)) does not run, so there are no completions for protectfs \(companion.rawValue)")
        return nil
    }
}
