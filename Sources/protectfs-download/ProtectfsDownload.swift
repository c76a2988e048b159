import CSecretMemory

/// `protectfs download`, a program of its own, so that no other verb loads what HTTP needs.
@main
enum ProtectfsDownload {
    private struct Root: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "protectfs", version: Companion.version, subcommands: [DownloadCommand.self])
    }

    static func main() async {
        ProcessHardening.apply()
        protectfs_keep_heap_small()
        CommandEnd.leaveWithoutArguments()
        let words = Companion.download.words(Array(CommandLine.arguments.dropFirst()))
        do {
            var command = try Root.parseAsRoot(LongArgumentLists.shortened(words))
            guard let verb = command as? any DownloadVerb else { return try command.run() }
            KeybagRegistry.clearRemnants()
            try SpareThreads.require()
            try await verb.perform()
        } catch {
            CommandEnd.leave(Root.self, because: error, words)
        }
    }
}

extension KeybagOption {
    /// The list of this keybag.
    func downloads(_ connections: DownloadConnections = DownloadConnections()) throws -> DownloadQueue {
        try DownloadQueue(open(), connections: connections)
    }
}
