import ArgumentParser

/// The program that locks when the session does.
struct Agent: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "agent", abstract: "Lock when the screen locks, the machine sleeps, or the last session ends.",
        discussion: """
            The agent is one process per user. It follows systemd-logind and screensavers over D-Bus. If you unlock \
            the screen within the grace period, the keys stay. After that, unlock again: protectfs unlock
            """,
        subcommands: [AgentRun.self, AgentInstall.self, AgentStatus.self])
}
