/// `download list`
struct DownloadList: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the downloads, their progress, and what they wait for.",
        discussion: "Columns: the id, the progress, the state or what it waits for, and the file.")

    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption
}

/// `download run`
struct DownloadRun: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Run the downloads in the list until a signal ends this command.",
        discussion: """
            Downloads that other processes add, locks, and unlocks are noticed at once. After SIGTERM the data that \
            has arrived is kept, and the next run continues from there.
            """)

    @Flag(help: "Exit when no download can continue without an unlock; status 75 if one is waiting.")
    var untilIdle = false
    @Option(
        help: ArgumentHelp(
            "The proxy for downloads that name none: http://HOST:PORT or socks5h://HOST:PORT.", valueName: "url"))
    var proxy: String?
    @Flag(help: "Also log URLs, file names, and why a try failed.")
    var verbose = false
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var keybag: KeybagOption
}

/// `download install`
struct DownloadInstall: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "install", abstract: "Install a systemd user unit that runs the list now and from each login on.",
        discussion: """
            Writes protectfs-download.service for your own systemd, then enables and starts it. It runs the list of \
            your own keybag. Without systemd nothing is installed, and a hint names the alternative.
            """)

    @Flag(help: "Print the unit without installing it.")
    var print = false
}

/// What `pause`, `resume` and `cancel` take.
struct DownloadsArgument: ParsableArguments {
    @Argument(help: ArgumentHelp("Ids of downloads, or their first four digits or more.", valueName: "id"))
    var ids: [String]

    mutating func validate() throws { ids = LongArgumentLists.expanded(ids) }
}

/// `download pause`
struct DownloadPause: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "pause", abstract: "Pause downloads and keep what has arrived.")

    @OptionGroup var downloads: DownloadsArgument
    @OptionGroup var keybag: KeybagOption
}

/// `download resume`
struct DownloadResume: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Resume paused or failed downloads, or retry waiting ones at once.")

    @OptionGroup var downloads: DownloadsArgument
    @OptionGroup var keybag: KeybagOption
}

/// `download cancel`
struct DownloadCancel: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "cancel", abstract: "Cancel downloads, delete their partial files, and remove them from the list.",
        discussion: """
            The file of a finished download stays. If another process runs the list, that process cancels the \
            download and deletes the partial file. The download then stays in the list as cancelled until download \
            clear.
            """)

    @OptionGroup var downloads: DownloadsArgument
    @OptionGroup var keybag: KeybagOption
}

/// `download clear`
struct DownloadClear: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "clear", abstract: "Remove finished and cancelled downloads from the list.",
        discussion: """
            Finished files stay. Failed downloads stay until download cancel. The list also removes finished and \
            cancelled downloads by itself thirty days after they ended, and keeps at most the last thousand.
            """)

    @OptionGroup var keybag: KeybagOption
}
