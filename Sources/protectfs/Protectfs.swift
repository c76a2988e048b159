import ArgumentParser
import DataProtection

/// The command. Each verb is a file of its own.
@main
struct Protectfs: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "protectfs",
        abstract: "Encrypt files so that they open only in the lock states of their protection class.",
        discussion: """
            Start with: protectfs init. All verbs: protectfs help --all. The manual: man protectfs

            Classes: complete (opens only while unlocked), unless-open (can be created at any time, opens only while \
            unlocked), first-unlock (opens after the first unlock since the machine started), none (opens at any time on \
            this machine).

            Silent on success. Exit status: 0 done, 64 usage, 65 damaged or not protected, 66 no such file or keybag, \
            69 no kernel keyring, 70 a bug, 71 the system refused, 73 exists already, 74 disk or I/O, 75 not now (locked, \
            throttled, busy), 76 server not trusted, 77 refused, 78 bad configuration, 126 and 127 from run as from env(1), 130 interrupted.
            """,
        version: Companion.version,
        groupedSubcommands: VerbGroup.all.map { CommandGroup(name: $0.name, subcommands: $0.first + $0.further) })

    static func main() {
        ProcessHardening.apply()
        CommandEnd.leaveWithoutArguments()
        let given = Array(CommandLine.arguments.dropFirst())
        if FirstScreen.isMeant(by: given) { CommandEnd.leave(withHelp: FirstScreen.helpMessage()) }
        if given == ["help", "--all"] { CommandEnd.leave(withHelp: helpMessage()) }
        let words = OldName.replaced(in: given)
        do {
            try Dispatch.becomeProgram(namedBy: words)
            if let script = try Dispatch.completionScript(askedForBy: words) { return try StandardOutput.write(script) }
            var command = try parseAsRoot(LongArgumentLists.shortened(ReplacingCommand.removed(from: words)))
            KeybagRegistry.clearRemnants()
            try command.run()
        } catch {
            CommandEnd.leave(self, because: error, words)
        }
    }
}
