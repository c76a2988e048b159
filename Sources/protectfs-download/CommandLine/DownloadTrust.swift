/// `download probe`
struct DownloadProbe: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "probe", abstract: "Show a server's certificates, their pins, and whether they are trusted.",
        discussion: """
            Makes a TLS connection and sends nothing over it. The exit status is 76 if the server is not trusted.
            """)

    @Argument(help: "The server: https://HOST, https://HOST:PORT, or any URL on it.")
    var url: String
    @OptionGroup var trust: TrustOptions
    @Option(help: ArgumentHelp("Use this proxy: http://HOST:PORT or socks5h://HOST:PORT.", valueName: "url"))
    var proxy: String?
    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption
}

/// `download trust`
struct DownloadTrust: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trust", abstract: "Manage exceptions for server certificates that fail a check.",
        discussion: """
            An exception is for exactly one host, port, certificate and reason: expired, not-yet-valid, \
            host-mismatch, unknown-root, self-signed, incomplete-chain. No other problem can be accepted.
            """,
        subcommands: [DownloadTrustAdd.self, DownloadTrustList.self, DownloadTrustRemove.self])
}

/// `download trust add`
struct DownloadTrustAdd: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Accept a problem with one certificate of one server.",
        discussion: """
            Compare the SHA-256 with the one that the server's owner gives you. protectfs download probe prints the \
            one that the server presents.
            """)

    @Argument(help: "HOST, or HOST:PORT (default: 443).")
    var server: String
    @Option(help: ArgumentHelp("SHA-256 of the certificate, in hexadecimal.", valueName: "sha256"))
    var certificate: String
    @Option(help: ArgumentHelp("The problem to accept; may be repeated.", valueName: "reason"))
    var reason: [String]
    @OptionGroup var keybag: KeybagOption
}

/// `download trust list`
struct DownloadTrustList: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the exceptions.",
        discussion: "Columns: host and port, the certificate's SHA-256, and the reasons.")

    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption
}

/// `download trust remove`
struct DownloadTrustRemove: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Remove an exception.")

    @Argument(help: "HOST, or HOST:PORT (default: 443).")
    var server: String
    @Option(
        help: ArgumentHelp("Remove it only for this certificate: its SHA-256, in hexadecimal.", valueName: "sha256"))
    var certificate: String?
    @OptionGroup var keybag: KeybagOption
}
