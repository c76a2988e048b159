import CSecretMemory
import Glibc

/// `protectfs secret`, a program of its own, so that no other verb loads what a database needs.
@main
enum ProtectfsSecrets {
    private struct Root: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "protectfs secret", abstract: SecretCommand.configuration.abstract,
            discussion: SecretCommand.configuration.discussion,
            subcommands: SecretCommand.verbs + [CopySecrets.self, RestoreSecrets.self])
    }

    static func main() {
        ProcessHardening.apply()
        protectfs_keep_heap_small()
        CommandEnd.leaveWithoutArguments()
        do {
            var command = try Root.parseAsRoot(words)
            guard let verb = command as? any PerformedSecretVerb else { return try command.run() }
            Keybag.clearRemnants()
            try verb.perform()
        } catch {
            CommandEnd.leave(Root.self, because: error)
        }
    }

    /// Under two other names it is what git and ssh run, and which they give their own words alone.
    private static var words: [String] {
        let given = LongArgumentLists.shortened(Array(CommandLine.arguments.dropFirst()))
        return switch FilePath(CommandLine.arguments[0]).lastComponent?.string {
        case "git-credential-protectfs": ["git-credential"] + given
        case "protectfs-askpass": ["askpass", "--"] + given
        default: given
        }
    }
}
