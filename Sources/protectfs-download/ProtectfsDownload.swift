import ArgumentParser
import CSecretMemory
import DataProtection

/// `protectfs download`, a program of its own, so that no other verb loads what HTTP needs.
@main
enum ProtectfsDownload {
    private struct Root: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "protectfs download", abstract: DownloadCommand.configuration.abstract,
            discussion: DownloadCommand.configuration.discussion, subcommands: DownloadCommand.verbs)
    }

    static func main() async {
        ProcessHardening.apply()
        protectfs_keep_heap_small()
        CommandEnd.leaveWithoutArguments()
        do {
            var command = try Root.parseAsRoot(LongArgumentLists.shortened(Array(CommandLine.arguments.dropFirst())))
            guard let verb = command as? any PerformedVerb else { return try command.run() }
            Keybag.clearRemnants()
            try await verb.perform()
        } catch {
            CommandEnd.leave(Root.self, because: error)
        }
    }
}

/// A verb that this program does.
protocol PerformedVerb: DownloadVerb {
    func perform() async throws
}

extension KeybagOption {
    /// The list of this keybag.
    func downloads(_ connections: DownloadConnections = DownloadConnections()) throws -> DownloadQueue {
        try DownloadQueue(open(), connections: connections)
    }
}
