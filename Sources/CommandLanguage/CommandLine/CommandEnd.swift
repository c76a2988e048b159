import ArgumentParser
import DataProtection
import Glibc

/// How a command ends that did not just do what it was told.
package enum CommandEnd {
    /// Swift takes the arguments from /proc: without it a verb would print help and end with 0.
    package static func leaveWithoutArguments() {
        guard CommandLine.argc > 0, !CommandLine.arguments.isEmpty else {
            Failure(.systemRefused, "the arguments cannot be read: /proc is not mounted here").report()
            Glibc.exit(ExitStatus.systemRefused.rawValue)
        }
    }

    /// Says what there is to say, and ends the process.
    ///
    /// - Parameters:
    ///   - root: the command of all verbs.
    ///   - words: what was parsed, without the program's name.
    package static func leave(
        _ root: any ParsableCommand.Type, because error: any Error, _ words: [String]
    ) -> Never {
        switch error {
        case let status as ExitStatus:
            Glibc.exit(status.rawValue)  // already said what there is to say
        case is Failure, is any SpokenError: leave(because: Failure(error))
        default: leave(root, withUsage: error, words)
        }
    }

    /// Prints help, and ends the process.
    package static func leave(withHelp text: String) -> Never {
        do throws(Failure) { try StandardOutput.write(withinColumns(text) + "\n") } catch { leave(because: error) }
        Glibc.exit(ExitStatus.done.rawValue)
    }

    private static func leave(because failure: Failure) -> Never {
        failure.report()
        Glibc.exit(failure.status.rawValue)
    }

    /// Help and version are answers; everything else that the parser throws is a usage error, said in our way.
    private static func leave(
        _ root: any ParsableCommand.Type, withUsage error: any Error, _ words: [String]
    ) -> Never {
        let asksForHelp = words.first == "help"
        let named = NamedVerb(Array(words.drop { $0 == "help" }), of: root)
        let unknownOption = words.contains(where: asksForAnswer) ? nil : named.unknownOptionFailure(among: words)
        if root.exitCode(for: error) == .success {
            if asksForHelp, let failure = named.unknownVerbFailure { leave(because: failure) }
            // A mistyped option may have the letter of help in it.
            if let unknownOption { leave(because: unknownOption) }
            leave(withHelp: root.fullMessage(for: error))
        }
        if let failure = named.unknownVerbFailure { leave(because: failure) }
        // The parser, and a verb's own checks, may complain of something else first.
        if let unknownOption { leave(because: unknownOption) }
        let message = LongArgumentLists.readable(inLowerCase(root.message(for: error)))
        let help = "\(named.command) --help"
        leave(because: Failure(.usage, message, hint: validForms(for: message).map { "\($0); see \(help)" } ?? help))
    }

    private static func asksForAnswer(_ word: String) -> Bool {
        ["-h", "--help", "--help-hidden", "--version", "--experimental-dump-help"].contains(word)
            || word.hasPrefix("--generate-completion-script")
    }

    /// What can stand where the parser has refused a value.
    private static func validForms(for message: String) -> String? {
        guard message.contains(" is invalid for ") else { return nil }
        if message.contains("<time>") { return "a time is one number with a unit: 90 or 90s, 10m, 2h, 1d" }
        if let option = message.firstMatch(of: #/'(?<name>--[a-z-]+-fd) <n>'/#)?.output.name {
            return "give it an open descriptor: \(SecretDescriptor.example(String(option)))"
        }
        if message.contains("<range>") { return "a range is A-B (both included), A- or -N (the last N bytes)" }
        return nil
    }

    /// The parser wraps all of its help but the line that shows how a verb is used. Completion scripts are left alone.
    private static func withinColumns(_ text: String, limit: Int = 80) -> String {
        let start = "USAGE: "
        return text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            // The parser's heading of a group: `EVERY DAY SUBCOMMANDS:`.
            if line.hasSuffix(" SUBCOMMANDS:"), line.first != " " { return String(line.dropLast(13)) + ":" }
            guard line.hasPrefix(start), line.count > limit else { return String(line) }
            var column = 0
            return line.replacing(" [", with: "\u{0} [").replacing(" --", with: "\u{0} --").split(separator: "\0")
                .reduce(into: "") { wrapped, part in
                    if column > 0, column + part.count > limit {
                        wrapped += "\n" + String(repeating: " ", count: start.count)
                        column = start.count - 1
                        wrapped += part.dropFirst()
                    } else {
                        wrapped += part
                    }
                    column += part.count
                }
        }.joined(separator: "\n")
    }

    /// The parser's sentences begin with a capital, end with a full stop, and some have several lines.
    private static func inLowerCase(_ sentence: String) -> String {
        var text = sentence.prefix(1).lowercased() + sentence.dropFirst()
        text = text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        while text.hasSuffix(".") { text.removeLast() }
        return text
    }
}
