import ArgumentParser
import DataProtection
import Glibc

/// Has systemd start the agent with each session.
struct AgentInstall: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "install", abstract: "Have systemd start the agent at each login, and now.",
        discussion: """
            Writes the unit protectfs-agent.service of the user's own systemd, enables and starts it. Without systemd nothing \
            is installed, and it is said what to do instead.
            """)

    @Flag(help: "Print the unit, and change nothing.")
    var print = false

    func run() throws {
        let program = try SiblingProgram.command()
        let unit = AgentUnit(program: program)
        if print { return try StandardOutput.write(unit.text) }
        guard AgentUnit.isSystemdRunning else {
            throw Failure(
                .unavailable, "systemd does not run here, so nothing is installed",
                hint: "put this where your session starts programs: \(quoted(program)) agent run &")
        }
        try unit.install()
        for words in [["daemon-reload"], ["enable", "--now", AgentUnit.name]] { try Self.systemctl(words) }
    }

    private static func systemctl(_ words: [String]) throws(Failure) {
        let command = ["systemctl", "--user"] + words
        var child = pid_t()
        // PATH is the user's own here: nothing is handed over.
        let arguments = CWords(command)
        let result = withExtendedLifetime(arguments) {
            posix_spawnp(&child, "systemctl", nil, nil, arguments.pointers, environ)
        }
        guard result == 0 else { throw Failure(.systemRefused, "systemctl: \(Errno(rawValue: result).spoken)") }
        var status: Int32 = 0
        while waitpid(child, &status, 0) == -1, errno == EINTR {}
        guard status == 0 else {
            throw Failure(
                .systemRefused, "\(command.joined(separator: " ")) failed",
                hint: "the unit is written; try again in a session of this user's own, not by su or sudo")
        }
    }
}
