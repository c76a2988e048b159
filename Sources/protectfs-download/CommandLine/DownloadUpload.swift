/// `download upload`
struct DownloadUpload: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "upload", abstract: "Upload a protected file and wait until the server has it.",
        discussion: """
            The file is sent decrypted, over TLS, and stays as it is. The upload is added to the list, and sent \
            again from its first byte until the server has acknowledged it. A file of class unless-open is still \
            sent while locked; a file of class complete waits for the next unlock.
            """)

    @Argument(help: "The protected file.")
    var file: PathArgument
    @Argument(help: "The URL to send it to: https://…")
    var url: String
    @Option(help: ArgumentHelp("The HTTP method: PUT or POST (default: PUT).", valueName: "method"))
    var method = UploadMethod.put
    @OptionGroup var transfer: TransferOptions
    @OptionGroup var credentials: CredentialOptions
    @OptionGroup var trust: TrustOptions
    @OptionGroup var connection: ConnectionOptions
    @Flag(help: "Print events to standard output, one JSON object per line.")
    var json = false
    @OptionGroup var keybag: KeybagOption
}

/// How a file is sent.
enum UploadMethod: String, ExpressibleByArgument, CaseIterable {
    case put = "PUT"
    case post = "POST"

    init?(argument: String) { self.init(rawValue: argument.uppercased()) }
}
