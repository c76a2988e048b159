import CSecretMemory
import Glibc

/// `protectfs secret`, a program of its own, so that no other verb loads what a database needs.
@main
enum ProtectfsSecrets {
    private struct Root: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "protectfs", version: Companion.version, subcommands: [SecretCommand.self])
    }

    static func main() {
        ProcessHardening.apply()
        protectfs_keep_heap_small()
        CommandEnd.leaveWithoutArguments()
        let words = Companion.secret.words(given)
        do {
            var command = try Root.parseAsRoot(LongArgumentLists.shortened(words))
            guard let verb = command as? any SecretVerb else { return try command.run() }
            KeybagRegistry.clearRemnants()
            try verb.perform()
        } catch {
            CommandEnd.leave(Root.self, because: error, words)
        }
    }

    /// Under two other names it is what git and ssh run, and which they give their own words alone.
    private static var given: [String] {
        let given = Array(CommandLine.arguments.dropFirst())
        return switch FilePath(CommandLine.arguments[0]).lastComponent?.string {
        case "git-credential-protectfs": ["git-credential"] + given
        case "protectfs-askpass": ["askpass", "--"] + given
        default: given
        }
    }
}
