import ArgumentParser
import DataProtection

/// Says whether an agent is there.
struct AgentStatus: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show whether an agent locks this keybag.",
        discussion: "The exit status is 75 if there is no agent.")

    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let agent = try AgentProgram.following(keybag.location)
        if json {
            try JSON.object(
                [("running", .bool(agent != nil)), ("pid", .optional(agent?.pid)), ("since", .optional(agent?.since))]
                    + (agent.map { JSON.members(of: $0.program, named: "program") } ?? [("program", .null)])
                    + [("followsAll", agent.map { .bool($0.followsAll) } ?? .null)]
            ).print()
        } else {
            var lines = OutputLines()
            for line in Self.text(agent, keybag.location) { try lines.add(line) }
            try lines.finish()
        }
        if agent == nil { throw ExitStatus.notNow }
    }

    private static func text(_ agent: AgentRecord?, _ directory: FilePath) -> [[UInt8]] {
        guard let agent else { return [Array("not running".utf8)] }
        return [
            Array("running since \(spoken(time: agent.since))".utf8),
            Array("process \(agent.pid), ".utf8) + listed(agent.program),
            Array("follows ".utf8) + (agent.followsAll ? Array("every unlocked keybag".utf8) : listed(directory)),
        ]
    }
}
