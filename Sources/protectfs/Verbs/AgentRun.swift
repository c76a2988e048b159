import ArgumentParser
import DataProtection

/// Becomes the agent.
struct AgentRun: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Follow the session and lock, until ended by a signal.",
        discussion: """
            Follows the user's own keybag and every other one that is unlocked. What is not given here is taken from the \
            configuration: agent-grace, agent-idle, agent-max. Says on standard error what it does.
            """)

    @Option(
        help: ArgumentHelp(
            "Lock this many seconds after the screen (default: 10); before sleep and at logout there is no grace.",
            valueName: "seconds"))
    var grace: UInt32?
    @Option(help: ArgumentHelp("Lock after this time of absence, as the desktop sees it.", valueName: "time"))
    var idle: DurationArgument?
    @Option(help: ArgumentHelp("Lock this long after an unlock, whatever happens.", valueName: "time"))
    var max: DurationArgument?
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        if let grace, grace > 86_400 { throw ValidationError("--grace is a day, 86400 seconds, at most") }
    }

    func run() throws {
        let configuration = try UserConfiguration.load()
        var words: [(String, [UInt8])] = []
        if keybag.isExplicit { words.append(("--keybag", keybag.location.bytes)) }
        let times = [
            ("--grace", grace ?? configuration.agentGrace), ("--idle", idle?.seconds ?? configuration.agentIdle),
            ("--max", max?.seconds ?? configuration.agentMax),
        ]
        for (name, seconds) in times { if let seconds { words.append((name, Array("\(seconds)".utf8))) } }
        throw AgentProgram.become(words.flatMap { [Array($0.utf8), $1] })
    }
}
