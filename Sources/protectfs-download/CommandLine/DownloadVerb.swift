/// A verb of `protectfs download`.
protocol DownloadVerb: ParsableCommand {
    /// Does it.
    func perform() async throws
}

/// All of them.
struct DownloadCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: Companion.download.rawValue,
        abstract: Companion.download.abstract,
        discussion: """
            The list of downloads outlives processes and restarts. download get and download run work on it. Data \
            that arrives while the keybag is locked is written as class unless-open. A file gets its name when all \
            its checks have passed, and its class then or at the next unlock.
            """,
        subcommands: [
            DownloadGet.self, DownloadAdd.self, DownloadUpload.self, DownloadList.self, DownloadRun.self,
            DownloadInstall.self, DownloadPause.self, DownloadResume.self, DownloadCancel.self, DownloadClear.self,
            DownloadProbe.self, DownloadTrust.self, DownloadCredentials.self, DownloadKey.self,
        ])
}
