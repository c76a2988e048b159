/// `download credentials`
struct DownloadCredentials: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "credentials", abstract: "Store passwords, tokens and client certificates for servers.",
        discussion: """
            Credentials are secrets of this keybag (protectfs secret). They are used for all downloads and uploads, \
            and no download command prints them. Each is sent only to its server, over TLS. Credentials that the \
            server has refused are not sent again until you add them again.
            """,
        subcommands: [
            DownloadCredentialsAdd.self, DownloadCredentialsImportIdentity.self, DownloadCredentialsList.self,
            DownloadCredentialsRemove.self,
        ])
}

/// `download credentials add`
struct DownloadCredentialsAdd: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Store a password or a bearer token for a server.",
        discussion: """
            Replaces credentials for the same server, realm and method. A stand-by server needs an entry of its own.
            """
    )

    @Argument(help: "HOST, HOST:PORT (default: 443), or proxy://HOST:PORT.")
    var server: String
    @OptionGroup var password: PasswordOptions
    @Option(help: ArgumentHelp("Use it only for this realm, as the server names it.", valueName: "text"))
    var realm: String?
    @Option(help: ArgumentHelp("Use it only with this method: basic, digest or ntlm.", valueName: "method"))
    var method: PasswordMethod?
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        if (password.user == nil) == (password.bearerDescriptor == nil) {
            throw ValidationError("either --user or --bearer-fd")
        }
        if password.user == nil, realm != nil || method != nil {
            throw ValidationError("a bearer token is for the server, whatever its realm and method")
        }
    }
}

/// How a password is sent.
enum PasswordMethod: String, ExpressibleByArgument, CaseIterable {
    case basic, digest, ntlm
}

/// `download credentials import-identity`
struct DownloadCredentialsImportIdentity: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "import-identity", abstract: "Store a client certificate and its key for a server.",
        discussion: """
            The certificate is sent whenever that server asks for one. The file is not needed afterwards.
            """)

    @Argument(help: "The PKCS #12 file, in DER or Base64.")
    var file: PathArgument
    @Argument(help: "HOST, or HOST:PORT (default: 443).")
    var server: String
    @OptionGroup var passcode: IdentityPasscodeOption
    @OptionGroup var keybag: KeybagOption
}

/// `download credentials list`
struct DownloadCredentialsList: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the stored credentials, without passwords and keys.",
        discussion: """
            Columns: the server, with realm and method if they are set; the kind; and the user or the certificate's \
            subject.
            """)

    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption
}

/// `download credentials remove`
struct DownloadCredentialsRemove: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Remove the stored credentials for a server.")

    @Argument(help: "HOST, HOST:PORT (default: 443), or proxy://HOST:PORT.")
    var server: String
    @Option(name: [.customShort("u"), .long], help: ArgumentHelp("Remove only those of this user.", valueName: "name"))
    var user: String?
    @Option(help: ArgumentHelp("Remove only those for this realm.", valueName: "text"))
    var realm: String?
    @OptionGroup var keybag: KeybagOption
}
