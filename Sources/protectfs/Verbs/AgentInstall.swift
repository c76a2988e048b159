import ArgumentParser
import DataProtection

/// Has systemd start the agent with each session.
struct AgentInstall: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "install", abstract: "Install a systemd user unit that starts the agent now and at each login.",
        discussion: """
            Writes protectfs-agent.service for your own systemd, then enables and starts it. Without systemd nothing \
            is installed, and a hint names the alternative.
            """)

    @Flag(help: "Print the unit without installing it.")
    var print = false

    func run() throws { try UserUnit.agent(SiblingProgram.command()).install(isPrinted: print) }
}

extension UserUnit {
    /// The one that runs the agent.
    ///
    /// - Parameter program: `protectfs`.
    static func agent(_ program: FilePath) -> UserUnit {
        UserUnit(
            "protectfs-agent.service", "Lock protected files when the session locks, sleeps or ends", running: program,
            "agent run", restartDelay: "3s", finalStatuses: "64 65 66 75 77 78", addressFamilies: "AF_UNIX")
    }
}
