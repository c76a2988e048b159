/// `download credentials`
package struct DownloadCredentials: ParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "credentials", abstract: "Store passwords, tokens and client certificates for servers.",
        discussion: """
            They are secrets of this keybag (protectfs secret), for all downloads and uploads, and never shown here. Each goes to its \
            server only, over TLS. A credential that was refused is not sent again before it is added again.
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
        discussion: "It replaces one for the same server, realm and method. A stand-by server gets an entry of its own."
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
        discussion: "It is shown whenever that server asks for one. The file is not needed afterwards.")

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
        discussion: "Columns: the server, with realm and method if it is for these only; what it is; and the user.")

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
