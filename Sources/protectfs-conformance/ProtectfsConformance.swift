/// `protectfs conformance`, a program of its own: it is for new file systems, and no other verb needs the table and its rehearsals.
@main
enum ProtectfsConformance {
    private struct Root: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "protectfs", version: Companion.version, subcommands: [CheckConformance.self])
    }

    static func main() {
        ProcessHardening.apply()
        CommandEnd.leaveWithoutArguments()
        let words = Companion.conformance.words(Array(CommandLine.arguments.dropFirst()))
        do {
            var command = try Root.parseAsRoot(LongArgumentLists.shortened(words))
            KeybagRegistry.clearRemnants()
            try command.run()
        } catch {
            CommandEnd.leave(Root.self, because: error, words)
        }
    }
}
