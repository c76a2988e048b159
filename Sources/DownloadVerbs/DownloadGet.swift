/// `download get`
package struct DownloadGet: DownloadVerb {
    package static let configuration = CommandConfiguration(
        commandName: "get", abstract: "Download files and wait for them to finish.",
        discussion: """
            Adds the downloads to the list, and runs the list or follows the process that runs it already. If you \
            interrupt it, the downloads stay in the list, and the same get continues them. If a try fails, the \
            reason is printed. A host that has no address fails at once.
            """)

    @OptionGroup package var wanted: WantedFiles
    @OptionGroup package var connection: ConnectionOptions
    @Flag(help: "Print events to standard output, one JSON object per line.")
    package var json = false
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// `download add`
package struct DownloadAdd: DownloadVerb {
    package static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Add downloads to the list and print their ids.",
        discussion: "They start when a process runs the list: at once if protectfs download run is running.")

    @OptionGroup package var wanted: WantedFiles
    @Flag(help: "Print the result as JSON.")
    package var json = false
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// What is downloaded, where it goes, and on which terms.
package struct WantedFiles: ParsableArguments {
    @Argument(help: "The URLs to download: https://…")
    package var urls: [String]
    @OptionGroup package var target: TargetOptions
    @OptionGroup package var options: RequestOptions
    @OptionGroup package var credentials: CredentialOptions
    @OptionGroup package var trust: TrustOptions

    package init() {}

    package mutating func validate() throws {
        urls = LongArgumentLists.expanded(urls)
        try target.validate(for: urls)
    }
}
