import ArgumentParser

/// The program that locks when the session does.
struct Agent: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "agent", abstract: "Lock when the screen locks, the machine sleeps, or the last session ends.",
        discussion: """
            One process for each user, which follows systemd-logind and screensavers over D-Bus. Unlocking the screen in time \
            keeps the keys; after that, unlock again: protectfs unlock
            """,
        subcommands: [AgentRun.self, AgentInstall.self, AgentStatus.self])
}
