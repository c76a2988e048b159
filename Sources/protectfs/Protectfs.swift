import ArgumentParser
import DataProtection
import Glibc

/// The command. Each verb is a file of its own.
@main
struct Protectfs: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "protectfs",
        abstract: "Keeps files encrypted whenever their keybag is locked, each by its protection class.",
        discussion: """
            Classes: complete (open only while unlocked), unless-open (can be created at any time, opened only while \
            unlocked), first-unlock (after the first unlock since the machine started), none (at any time on this machine).

            Silent on success. Exit status: 0 done, 64 usage, 65 damaged or not protected, 66 no such file or keybag, \
            69 no kernel keyring, 70 a bug, 71 the system refused, 73 exists already, 74 disk or I/O, 75 not now (locked, \
            throttled, busy), 77 refused, 78 bad configuration, 126 and 127 from run as from env(1), 130 interrupted.
            """,
        version: "0.1.0",
        subcommands: [
            Init.self, Unlock.self, Lock.self, Status.self, Wait.self, Watch.self, Agent.self, Protect.self,
            Unprotect.self, Upgrade.self, Write.self, Cat.self, Edit.self, Run.self, Ls.self, Class.self, Passcode.self,
            Rotate.self, Recovery.self, Erase.self, Queue.self, Verify.self, Inspect.self, Explain.self, Doctor.self,
            CheckConformance.self,
        ])

    static func main() {
        ProcessHardening.apply()
        // Swift takes the arguments from /proc: without it `lock` would print help and end with 0.
        guard CommandLine.argc > 0, !CommandLine.arguments.isEmpty else {
            Failure(.systemRefused, "the arguments cannot be read: /proc is not mounted here").report()
            Glibc.exit(ExitStatus.systemRefused.rawValue)
        }
        do {
            var command = try parseAsRoot(
                LongArgumentLists.shortened(Run.withoutCommand(CommandLine.arguments.dropFirst())))
            Keybag.clearRemnants()
            try command.run()
        } catch {
            leave(because: error)
        }
    }

    private static func leave(because error: any Error) -> Never {
        switch error {
        case let status as ExitStatus:
            Glibc.exit(status.rawValue)  // already said what there is to say
        case is Failure, is DataProtectionError:
            let failure = Failure(error)
            failure.report()
            Glibc.exit(failure.status.rawValue)
        default:
            leave(withUsage: error)
        }
    }

    /// Help and version are answers; everything else that the parser throws is a usage error, said in our way.
    private static func leave(withUsage error: any Error) -> Never {
        if exitCode(for: error) == .success {
            do throws(Failure) { try StandardOutput.write(withinColumns(fullMessage(for: error)) + "\n") } catch {
                error.report()
                Glibc.exit(error.status.rawValue)
            }
            Glibc.exit(ExitStatus.done.rawValue)
        }
        var verb: any ParsableCommand.Type = Self.self
        var command = "protectfs"
        for word in CommandLine.arguments.dropFirst() {
            guard let found = verb.configuration.subcommands.first(where: { $0.configuration.commandName == word })
            else { continue }
            verb = found
            command += " " + word
        }
        if command == "protectfs", let word = CommandLine.arguments.dropFirst().first, !word.hasPrefix("-") {
            Failure(.usage, "there is no verb \(quoted(word))", hint: "protectfs --help").report()
            Glibc.exit(ExitStatus.usage.rawValue)
        }
        Failure(.usage, LongArgumentLists.readable(inLowerCase(message(for: error))), hint: "\(command) --help")
            .report()
        Glibc.exit(ExitStatus.usage.rawValue)
    }

    /// The parser wraps all of its help but the line that shows how a verb is used. Completion scripts are left alone.
    private static func withinColumns(_ text: String, limit: Int = 80) -> String {
        let start = "USAGE: "
        return text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            guard line.hasPrefix(start), line.count > limit else { return String(line) }
            var column = 0
            return line.replacing(" [", with: "\u{0} [").split(separator: "\0").reduce(into: "") { wrapped, part in
                if column + part.count > limit {
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
