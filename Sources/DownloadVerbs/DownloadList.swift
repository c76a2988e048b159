/// `download list`
package struct DownloadList: DownloadVerb {
    package static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the downloads, and why one waits.",
        discussion: "Columns: the id, how far it is, what it does or waits for, and the file.")

    @Flag(help: "As JSON.")
    package var json = false
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// `download run`
package struct DownloadRun: DownloadVerb {
    package static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Do what is in the list, until ended by a signal.",
        discussion: """
            Notices at once what other processes put into the list, and locks and unlocks. Ended by SIGTERM it keeps what has \
            come, and the next one goes on from there.
            """)

    @Flag(help: "End when nothing is left that goes on without an unlock; status 75 if something waits.")
    package var untilIdle = false
    @Option(
        help: ArgumentHelp(
            "Where a download names none, go through it: http://HOST:PORT or socks5h://HOST:PORT.", valueName: "url"))
    package var proxy: String?
    @OptionGroup package var connection: ConnectionOptions
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// What `pause`, `resume` and `cancel` take.
package struct DownloadsArgument: ParsableArguments {
    @Argument(help: ArgumentHelp("The downloads: ids, or the first four digits or more of one.", valueName: "id"))
    package var ids: [String]

    package init() {}

    package mutating func validate() throws { ids = LongArgumentLists.expanded(ids) }
}

/// `download pause`
package struct DownloadPause: DownloadVerb {
    package static let configuration = CommandConfiguration(
        commandName: "pause", abstract: "Stop downloads, and keep what has come.")

    @OptionGroup package var downloads: DownloadsArgument
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// `download resume`
package struct DownloadResume: DownloadVerb {
    package static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Let downloads go on: paused ones, failed ones, or at once those that wait to retry.")

    @OptionGroup package var downloads: DownloadsArgument
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// `download cancel`
package struct DownloadCancel: DownloadVerb {
    package static let configuration = CommandConfiguration(
        commandName: "cancel", abstract: "End downloads, remove what has come of them, and take them out of the list.",
        discussion: "Of one that is finished the file stays.")

    @OptionGroup package var downloads: DownloadsArgument
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}
