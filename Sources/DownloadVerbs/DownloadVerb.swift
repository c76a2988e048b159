/// A verb of `protectfs download`: what it is called and what it takes.
///
/// Both programs read these words: `protectfs`, for help and completion, before it becomes `protectfs-download`, and that one
/// to do them (`PerformedVerb`). So `protectfs lock` loads neither libcurl nor SQLite.
package protocol DownloadVerb: ParsableCommand {}

/// All of them.
package struct DownloadCommand: ParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "download",
        abstract: "Download files that are protected from their first byte, even while locked.",
        discussion: """
            The list of downloads outlives processes and restarts. download get and download run work on it. Data \
            that arrives while the keybag is locked is written as class unless-open. A file gets its name when all \
            its checks have passed, and its class then or at the next unlock.
            """,
        subcommands: verbs)

    package static let verbs: [any ParsableCommand.Type] = [
        DownloadGet.self, DownloadAdd.self, DownloadUpload.self, DownloadList.self, DownloadRun.self,
        DownloadInstall.self, DownloadPause.self, DownloadResume.self, DownloadCancel.self, DownloadClear.self,
        DownloadProbe.self, DownloadTrust.self, DownloadCredentials.self, DownloadKey.self,
    ]

    package init() {}
}
