/// Our credentials for the server of the URL. Secrets come through a descriptor or a prompt.
struct CredentialOptions: ParsableArguments {
    @OptionGroup var password: PasswordOptions
    @Option(
        help: ArgumentHelp("A client certificate for the URL's server, if it asks: a PKCS #12 file.", valueName: "file")
    )
    var identity: PathArgument?
    @OptionGroup var passcode: IdentityPasscodeOption

    func validate() throws {
        if identity == nil, passcode.descriptor != nil {
            throw ValidationError("--identity-passcode-fd is for --identity")
        }
    }
}

/// A password or a bearer token.
struct PasswordOptions: ParsableArguments {
    @Option(
        name: [.customShort("u"), .long], help: ArgumentHelp("The user. The password is asked for.", valueName: "name"))
    var user: String?
    @Option(
        name: .customLong("password-fd"),
        help: SecretDescriptor.line("the password"), transform: SecretDescriptor.open)
    var passwordDescriptor: Int32?
    @Option(
        name: .customLong("bearer-fd"),
        help: SecretDescriptor.line("a bearer token"), transform: SecretDescriptor.open)
    var bearerDescriptor: Int32?

    func validate() throws {
        if let user, user.isEmpty || user.contains(":") {
            throw ValidationError("--user is a name without a colon: a password is never an argument")
        }
        if user == nil, passwordDescriptor != nil { throw ValidationError("--password-fd is for --user") }
    }
}

/// What opens a PKCS #12 file.
struct IdentityPasscodeOption: ParsableArguments {
    @Option(
        name: .customLong("identity-passcode-fd"),
        help: SecretDescriptor.line("the passcode of the PKCS #12 file"), transform: SecretDescriptor.open)
    var descriptor: Int32?
}
