import ArgumentParser
import DataProtection

/// Becomes the agent.
struct AgentRun: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Run the agent in the foreground until a signal ends it.",
        discussion: """
            Follows your own keybag and every other keybag that is unlocked; with --keybag only that one. Options \
            that are not given are taken from the configuration: agent-grace, agent-idle, agent-max. Logs to \
            standard error.
            """)

    @Option(
        help: ArgumentHelp(
            "Lock this many seconds after the screen locks (default: 10). Sleep and logout lock at once.",
            valueName: "seconds"))
    var grace: UInt32?
    @Option(help: ArgumentHelp("Lock when the desktop has reported you idle for this long.", valueName: "time"))
    var idle: DurationArgument?
    @Option(help: ArgumentHelp("Lock this long after an unlock, even while you are active.", valueName: "time"))
    var max: DurationArgument?
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        if let grace, grace > 86_400 { throw ValidationError("--grace takes at most 86400 seconds") }
    }

    func run() throws {
        let configuration = try UserConfiguration.load()
        var words: [(String, [UInt8])] = []
        if keybag.isExplicit { words.append(("--keybag", keybag.location.bytes)) }
        let times = [
            ("--grace", grace, configuration.agentGrace), ("--idle", idle?.seconds, configuration.agentIdle),
            ("--max", max?.seconds, configuration.agentMax),
        ]
        for (name, given, configured) in times {
            guard let seconds = given.map(Int64.init) ?? configured?.components.seconds else { continue }
            words.append((name, Array("\(seconds)".utf8)))
        }
        throw AgentProgram.become(words.flatMap { [Array($0.utf8), $1] })
    }
}
