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
    @Flag(help: "Log URLs, names, and why a try failed, too.")
    package var verbose = false
    @OptionGroup package var connection: ConnectionOptions
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// `download install`
package struct DownloadInstall: DownloadVerb {
    package static let configuration = CommandConfiguration(
        commandName: "install", abstract: "Have systemd run the list from each login on, and now.",
        discussion: """
            Writes the unit protectfs-download.service of the user's own systemd, enables and starts it: download run for \
            your keybag. Without systemd nothing is installed, and it is said what to do instead.
            """)

    @Flag(help: "Print the unit, and change nothing.")
    package var print = false

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
        discussion: """
            Of one that is finished the file stays. While another process runs the list, that one ends the download and removes \
            what has come, and the download stays in the list as cancelled until clear.
            """)

    @OptionGroup package var downloads: DownloadsArgument
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// `download clear`
package struct DownloadClear: DownloadVerb {
    package static let configuration = CommandConfiguration(
        commandName: "clear", abstract: "Take finished and cancelled downloads out of the list.",
        discussion: """
            Finished files stay. By itself the list forgets them thirty days after they ended, and keeps the last thousand. \
            Failed ones stay until cancel.
            """)

    @OptionGroup package var keybag: KeybagOption

    package init() {}
}
