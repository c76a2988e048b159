import ArgumentParser
import DataProtection

/// Which verb a command line names, and what was probably meant by words that the parser does not know.
struct NamedVerb {
    private let root: any ParsableCommand.Type
    /// The verb that was found last: the root if the words name none.
    private(set) var verb: any ParsableCommand.Type
    /// What to type for it: `protectfs recovery new`.
    private(set) var command: String
    /// The word at the place of a verb that is none.
    private(set) var unknownVerb: String?

    /// - Parameter words: without the program's name.
    init(_ words: [String], of root: any ParsableCommand.Type) {
        (self.root, verb, command) = (root, root, Self.name(of: root))
        var isBehindOption = false
        for word in words {
            let verbs = verb.configuration.subcommands
            if verbs.isEmpty || word == "--" { return }
            if word.hasPrefix("-") {
                isBehindOption = true
            } else if let found = verbs.first(where: { Self.names(of: $0).contains(word) }) {
                verb = found
                command += " " + Self.name(of: found)
            } else if !isBehindOption {  // or it may be the option's value
                unknownVerb = word
                return
            }
        }
    }

    /// The error for ``unknownVerb``.
    var unknownVerbFailure: Failure? {
        guard let unknownVerb else { return nil }
        let names = verb.configuration.subcommands.filter { $0.configuration.shouldDisplay }
            .flatMap { Self.names(of: $0) }
        let parents = command.split(separator: " ").dropFirst().joined(separator: " ")
        return Failure(
            .usage, "there is no verb \(quoted(parents.isEmpty ? unknownVerb : "\(parents) \(unknownVerb)"))",
            hint: SimilarWord.to(unknownVerb, among: names).map { "did you mean: \(command) \($0)" }
                ?? "\(command) --help")
    }

    // MARK: options

    /// The error for the first word that looks like an option and is not an option of this verb.
    ///
    /// The parser does not always find it: it complains of missing arguments first, and takes `-sha256` for `-s -h -a …`.
    func unknownOptionFailure(among words: [String]) -> Failure? {
        let options = self.options
        for word in words.prefix(while: { $0 != "--" }) where word.hasPrefix("-") && word.count > 1 {
            let option = String(word.prefix { $0 != "=" })
            if options.contains(option) || isCluster(option, of: options) || Int(option) != nil { continue }
            let similar = SimilarWord.to(option, among: options.filter { $0.hasPrefix("--") })
            return Failure(
                .usage, "unknown option \(quoted(option))",
                hint: (similar.map { "did you mean: \($0); see " } ?? "") + "\(command) --help")
        }
        return nil
    }

    /// Whether it is several options of one letter, or one with its value behind it: `-rh`, `-ofile`.
    private func isCluster(_ word: String, of options: [String]) -> Bool {
        guard !word.hasPrefix("--"), let first = word.dropFirst().first else { return false }
        if valuedLetters.contains(first) { return true }
        return word.dropFirst().allSatisfy { options.contains("-\($0)") }
    }

    /// The options of the verb, as its help lists them: `-o`, `--output`, `--help`.
    private var options: [String] { optionColumns.flatMap { $0.names } }

    /// The one-letter options that take a value.
    private var valuedLetters: [Character] {
        optionColumns.filter(\.takesValue).flatMap(\.names).filter { !$0.hasPrefix("--") }.compactMap(\.last)
    }

    /// The first columns of the lines that introduce options: `  -o, --output <file>`.
    private var optionColumns: [(names: [String], takesValue: Bool)] {
        let help = root.helpMessage(for: verb, includeHidden: true, columns: 200)
        return help.split(separator: "\n").filter { $0.hasPrefix("  -") }.map { line in
            let words = line.split(separator: " ").prefix { $0.hasPrefix("-") || $0.hasPrefix("<") }
            let names = words.filter { $0.hasPrefix("-") }.flatMap { $0.split(separator: "/") }
            return (names.map { $0.filter { $0 != "," } }, words.contains { $0.hasPrefix("<") })
        }
    }

    // MARK: names

    private static func name(of verb: any ParsableCommand.Type) -> String {
        verb.configuration.commandName ?? "\(verb)".lowercased()
    }

    private static func names(of verb: any ParsableCommand.Type) -> [String] {
        [name(of: verb)] + verb.configuration.aliases
    }
}
