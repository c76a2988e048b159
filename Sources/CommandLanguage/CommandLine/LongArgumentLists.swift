import DataProtection

/// Thousands of paths on the command line, kept away from the parser, which takes time by the square of their number.
///
/// A long run of arguments that are no options is handed to the parser as one placeholder, with a NUL that no real argument
/// can hold. ``PathsArgument`` turns it back into its paths.
package enum LongArgumentLists {
    private static let mark: Character = "\0"
    /// Runs of fewer arguments are left alone.
    package static let shortest = 64
    // Set once, before the parser runs.
    private nonisolated(unsafe) static var runs: [[String]] = []

    /// The arguments for the parser. The first of a run may be an option's value, the first two the names of a verb: they stay.
    package static func shortened(_ words: [String]) -> [String] {
        let arguments = RawArguments.distinguished(words)
        guard arguments.count > shortest else { return arguments }
        var result: [String] = []
        var run: [String] = []
        func endRun() {
            if run.count < shortest {
                result += run
            } else {
                result += run.prefix(2) + ["\(mark)\(runs.count)"]
                runs.append(Array(run.dropFirst(2)))
            }
            run = []
        }
        for argument in arguments {
            if argument.hasPrefix("-") {
                endRun()
                result.append(argument)
            } else {
                run.append(argument)
            }
        }
        endRun()
        return result
    }

    /// What a placeholder stands for; nil for other arguments.
    package static func expand(_ argument: String) -> [String]? {
        guard argument.first == mark, let index = Int(argument.dropFirst()), runs.indices.contains(index) else {
            return nil
        }
        return runs[index]
    }

    /// Arguments that are no paths, with what placeholders among them stand for.
    package static func expanded(_ arguments: [String]) -> [String] { arguments.flatMap { expand($0) ?? [$0] } }

    /// A message of the parser, with the first paths in place of a placeholder.
    package static func readable(_ message: String) -> String {
        var text = RawArguments.readable(message)
        for (index, run) in runs.enumerated() {
            text = text.split(separator: "\(mark)\(index)", omittingEmptySubsequences: false)
                .joined(separator: "\(run.first ?? "")…")
        }
        return text
    }
}
