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
    /// - Parameter root: the command of all verbs.
    package static func leave(_ root: any ParsableCommand.Type, because error: any Error) -> Never {
        switch error {
        case let status as ExitStatus:
            Glibc.exit(status.rawValue)  // already said what there is to say
        case is Failure, is any SpokenError:
            let failure = Failure(error)
            failure.report()
            Glibc.exit(failure.status.rawValue)
        default:
            leave(root, withUsage: error)
        }
    }

    /// Help and version are answers; everything else that the parser throws is a usage error, said in our way.
    private static func leave(_ root: any ParsableCommand.Type, withUsage error: any Error) -> Never {
        if root.exitCode(for: error) == .success {
            do throws(Failure) { try StandardOutput.write(withinColumns(root.fullMessage(for: error)) + "\n") } catch {
                error.report()
                Glibc.exit(error.status.rawValue)
            }
            Glibc.exit(ExitStatus.done.rawValue)
        }
        var verb: any ParsableCommand.Type = root
        let name = root.configuration.commandName ?? "protectfs"
        var command = name
        for word in CommandLine.arguments.dropFirst() {
            guard let found = verb.configuration.subcommands.first(where: { $0.configuration.commandName == word })
            else { continue }
            verb = found
            command += " " + word
        }
        if command == name, let word = CommandLine.arguments.dropFirst().first, !word.hasPrefix("-") {
            let verbs = root.configuration.subcommands.map { $0.configuration.commandName ?? "" }
            let hint = SimilarWord.to(word, among: verbs).map { "did you mean: \(name) \($0)" } ?? "\(name) --help"
            Failure(.usage, "there is no verb \(quoted(word))", hint: hint).report()
            Glibc.exit(ExitStatus.usage.rawValue)
        }
        let message = LongArgumentLists.readable(inLowerCase(root.message(for: error)))
        Failure(
            .usage, message,
            hint: validForms(for: message).map { "\($0); see \(command) --help" } ?? "\(command) --help"
        )
        .report()
        Glibc.exit(ExitStatus.usage.rawValue)
    }

    /// What can stand where the parser has refused a value.
    private static func validForms(for message: String) -> String? {
        guard message.contains(" is invalid for ") else { return nil }
        if message.contains("<time>") { return "a time is one number with a unit: 90 or 90s, 10m, 2h, 1d" }
        if message.contains("<range>") { return "a range is A-B (both included), A- or -N (the last N bytes)" }
        return nil
    }

    /// The parser wraps all of its help but the line that shows how a verb is used. Completion scripts are left alone.
    private static func withinColumns(_ text: String, limit: Int = 80) -> String {
        let start = "USAGE: "
        return text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
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
