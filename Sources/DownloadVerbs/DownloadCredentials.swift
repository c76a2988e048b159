/// `download credentials`
package struct DownloadCredentials: ParsableCommand {
    package static let configuration = CommandConfiguration(
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

    package init() {}
}

/// `download credentials add`
package struct DownloadCredentialsAdd: DownloadVerb {
    package static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Store a password or a bearer token for a server.",
        discussion: """
            Replaces credentials for the same server, realm and method. A stand-by server needs an entry of its own.
            """
    )

    @Argument(help: "HOST, HOST:PORT (default: 443), or proxy://HOST:PORT.")
    package var server: String
    @OptionGroup package var password: PasswordOptions
    @Option(help: ArgumentHelp("Use it only for this realm, as the server names it.", valueName: "text"))
    package var realm: String?
    @Option(help: ArgumentHelp("Use it only with this method: basic, digest or ntlm.", valueName: "method"))
    package var method: PasswordMethod?
    @OptionGroup package var keybag: KeybagOption

    package init() {}

    package func validate() throws {
        if (password.user == nil) == (password.bearerDescriptor == nil) {
            throw ValidationError("either --user or --bearer-fd")
        }
        if password.user == nil, realm != nil || method != nil {
            throw ValidationError("a bearer token is for the server, whatever its realm and method")
        }
    }
}

/// How a password is sent.
package enum PasswordMethod: String, ExpressibleByArgument, CaseIterable {
    case basic, digest, ntlm
}

/// `download credentials import-identity`
package struct DownloadCredentialsImportIdentity: DownloadVerb {
    package static let configuration = CommandConfiguration(
        commandName: "import-identity", abstract: "Store a client certificate and its key for a server.",
        discussion: """
            The certificate is sent whenever that server asks for one. The file is not needed afterwards.
            """)

    @Argument(help: "The PKCS #12 file, in DER or Base64.")
    package var file: PathArgument
    @Argument(help: "HOST, or HOST:PORT (default: 443).")
    package var server: String
    @OptionGroup package var passcode: IdentityPasscodeOption
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// `download credentials list`
package struct DownloadCredentialsList: DownloadVerb {
    package static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the stored credentials, without passwords and keys.",
        discussion: """
            Columns: the server, with realm and method if they are set; the kind; and the user or the certificate's \
            subject.
            """)

    @Flag(help: "Print the result as JSON.")
    package var json = false
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// `download credentials remove`
package struct DownloadCredentialsRemove: DownloadVerb {
    package static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Remove the stored credentials for a server.")

    @Argument(help: "HOST, HOST:PORT (default: 443), or proxy://HOST:PORT.")
    package var server: String
    @Option(name: [.customShort("u"), .long], help: ArgumentHelp("Remove only those of this user.", valueName: "name"))
    package var user: String?
    @Option(help: ArgumentHelp("Remove only those for this realm.", valueName: "text"))
    package var realm: String?
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}
