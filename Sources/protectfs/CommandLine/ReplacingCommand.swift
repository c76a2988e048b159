import DataProtection
import Glibc

/// A command that takes the place of protectfs: the words behind the first `--`, byte for byte.
struct ReplacingCommand {
    /// At least one.
    let words: [[UInt8]]

    /// The verbs that run one.
    private static let verbs = ["run", "raw"]

    /// The one that this process was given; nil if there is none.
    static func given() -> ReplacingCommand? {
        let words = (1..<max(1, Int(CommandLine.argc))).compactMap { index in
            CommandLine.unsafeArgv[index].map { Array(UnsafeRawBufferPointer(start: $0, count: strlen($0))) }
        }
        let command = Array(words.drop { $0 != Array("--".utf8) }.dropFirst())
        return command.isEmpty ? nil : ReplacingCommand(words: command)
    }

    /// What the parser is for: the words behind `--` are none of its business.
    static func removed(from arguments: [String]) -> [String] {
        guard let verb = arguments.first, verbs.contains(verb) else { return arguments }
        return Array(arguments.prefix { $0 != "--" })
    }

    /// execvp(3): the limits and the environment stay; SIGPIPE is as it was before us.
    func become() throws -> Never {
        let arguments = CWords(words)
        ProcessHardening.restoreBrokenPipe()
        execvp(arguments.pointers[0]!, &arguments.pointers)
        let error = Errno.current
        let status: ExitStatus = error == .noSuchFileOrDirectory ? .commandNotFound : .commandNotRunnable
        throw Failure(status, "cannot run \(quoted(String(decoding: words[0], as: UTF8.self))): \(error.spoken)")
    }
}
