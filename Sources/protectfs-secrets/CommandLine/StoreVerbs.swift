/// `secret export`
struct SecretExport: SecretVerb {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Export secrets with their values to a protected file.",
        discussion: """
            The file gets class complete. With - the secrets are written to standard output in plaintext: two lines \
            each, its attributes as JSON and its value in Base64. Secrets of this device only are left out, with a \
            warning.
            """)

    @Argument(help: "The file to write; - prints plaintext to standard output.")
    var file: PathArgument
    @Flag(help: "Export the secrets of all groups.")
    var allGroups = false
    @Flag(help: "Replace an existing file.")
    var replace = false
    @OptionGroup var group: GroupOptions
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        if allGroups, group.group != nil { throw ValidationError("--all-groups and --group exclude each other") }
    }
}

/// `secret import`
struct SecretImport: SecretVerb {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Import the secrets of an export: all of them, or none.",
        discussion: """
            The file is one that secret export wrote, protected or plain; - is standard input. Each secret goes to \
            the group that it came from. If a secret exists already, nothing is imported and the exit status is 73; \
            --replace replaces it.
            """)

    @Argument(help: "The file to read; - is standard input.")
    var file: PathArgument
    @Flag(help: "Replace existing secrets.")
    var replace = false
    @OptionGroup var keybag: KeybagOption
}

/// `secret rewrap`: a part of `rotate`, and not shown in help.
struct SecretRewrap: SecretVerb {
    static let configuration = CommandConfiguration(
        commandName: "rewrap", abstract: "Wrap secrets with the new class keys, as rotate does.",
        discussion: """
            protectfs rotate --resume does it too. No value is changed, and secrets that are rewrapped already are left \
            alone.
            """,
        shouldDisplay: false)

    @Flag(help: "Change nothing; status 77 if some secrets need it.")
    var check = false
    @OptionGroup var keybag: KeybagOption
}

/// `secret git-credential`
struct SecretGitCredential: SecretVerb {
    static let configuration = CommandConfiguration(
        commandName: "git-credential", abstract: "Act as a credential helper for git.",
        discussion: """
            Git runs it as git-credential-protectfs. Type once: git config --global credential.helper protectfs

            Passwords are internet passwords of the group. If there are several accounts for one server, none is \
            chosen unless git names one. While the keybag is locked, git asks you instead.
            """)

    @Argument(help: "What git asks for: get, store or erase.")
    var operation: String
    @OptionGroup var group: GroupOptions
    @OptionGroup var keybag: KeybagOption
}

/// `secret askpass`
struct SecretAskpass: SecretVerb {
    static let configuration = CommandConfiguration(
        commandName: "askpass", abstract: "Answer a prompt of ssh, git or sudo with a secret.",
        discussion: """
            ssh, git and sudo run it as protectfs-askpass, if SSH_ASKPASS, GIT_ASKPASS or SUDO_ASKPASS names that \
            program. The passphrase of an ssh key is the generic password of service ssh-key, with the path of the \
            key as account. The password of sudo is that of service sudo, with the user as account. All others are \
            internet passwords. Questions that ask for no secret, such as whether to trust a host key, are not \
            answered: exit status 66.
            """)

    @Argument(help: "The question.")
    var question: String
    @OptionGroup var group: GroupOptions
    @OptionGroup var keybag: KeybagOption
}
