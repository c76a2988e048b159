/// `download get`
struct DownloadGet: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "get", abstract: "Download files and wait for them to finish.",
        discussion: """
            Adds the downloads to the list, and runs the list or follows the process that runs it already. If you \
            interrupt it, the downloads stay in the list, and the same get continues them. If a try fails, the \
            reason is printed. A host that has no address fails at once.
            """)

    @OptionGroup var wanted: WantedFiles
    @OptionGroup var connection: ConnectionOptions
    @Flag(help: "Print events to standard output, one JSON object per line.")
    var json = false
    @OptionGroup var keybag: KeybagOption
}

/// `download add`
struct DownloadAdd: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Add downloads to the list and print their ids.",
        discussion: "They start when a process runs the list: at once if protectfs download run is running.")

    @OptionGroup var wanted: WantedFiles
    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption
}

/// What is downloaded, where it goes, and on which terms.
struct WantedFiles: ParsableArguments {
    @Argument(help: "The URLs to download: https://…")
    var urls: [String]
    @OptionGroup var target: TargetOptions
    @OptionGroup var options: RequestOptions
    @OptionGroup var credentials: CredentialOptions
    @OptionGroup var trust: TrustOptions

    mutating func validate() throws {
        urls = LongArgumentLists.expanded(urls)
        try target.validate(for: urls)
    }
}
