/// `download upload`
package struct DownloadUpload: DownloadVerb {
    package static let configuration = CommandConfiguration(
        commandName: "upload", abstract: "Upload a protected file and wait until the server has it.",
        discussion: """
            The file is sent decrypted, over TLS, and stays as it is. The upload is added to the list, and sent \
            again from its first byte until the server has acknowledged it. A file of class unless-open is still \
            sent while locked; a file of class complete waits for the next unlock.
            """)

    @Argument(help: "The protected file.")
    package var file: PathArgument
    @Argument(help: "The URL to send it to: https://…")
    package var url: String
    @Option(help: ArgumentHelp("The HTTP method: PUT or POST (default: PUT).", valueName: "method"))
    package var method = UploadMethod.put
    @OptionGroup package var transfer: TransferOptions
    @OptionGroup package var credentials: CredentialOptions
    @OptionGroup package var trust: TrustOptions
    @OptionGroup package var connection: ConnectionOptions
    @Flag(help: "Print events to standard output, one JSON object per line.")
    package var json = false
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// How a file is sent.
package enum UploadMethod: String, ExpressibleByArgument, CaseIterable {
    case put = "PUT"
    case post = "POST"

    package init?(argument: String) { self.init(rawValue: argument.uppercased()) }
}
