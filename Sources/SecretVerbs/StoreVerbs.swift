/// `secret export`
package struct SecretExport: SecretVerb {
    package static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Export secrets with their values to a protected file.",
        discussion: """
            The file gets class complete. With - the secrets are written to standard output in plaintext: two lines \
            each, its attributes as JSON and its value in Base64. Secrets of this device only are left out, with a \
            warning.
            """)

    @Argument(help: "The file to write; - prints plaintext to standard output.")
    package var file: PathArgument
    @Flag(help: "Export the secrets of all groups.")
    package var allGroups = false
    @Flag(help: "Replace an existing file.")
    package var replace = false
    @OptionGroup package var group: GroupOptions
    @OptionGroup package var keybag: KeybagOption

    package init() {}

    package func validate() throws {
        if allGroups, group.group != nil { throw ValidationError("--all-groups and --group exclude each other") }
    }
}

/// `secret import`
package struct SecretImport: SecretVerb {
    package static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Import the secrets of an export: all of them, or none.",
        discussion: """
            The file is one that secret export wrote, protected or plain; - is standard input. Each secret goes to \
            the group that it came from. If a secret exists already, nothing is imported and the exit status is 73; \
            --replace replaces it.
            """)

    @Argument(help: "The file to read; - is standard input.")
    package var file: PathArgument
    @Flag(help: "Replace existing secrets.")
    package var replace = false
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// `secret rewrap`
package struct SecretRewrap: SecretVerb {
    package static let configuration = CommandConfiguration(
        commandName: "rewrap", abstract: "Wrap secrets with the new class keys, as rotate does.",
        discussion: """
            Needed only if a rotation could not do it. No value is changed, and secrets that are rewrapped already \
            are left alone.
            """)

    @Flag(help: "Change nothing; status 77 if some secrets need it.")
    package var check = false
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// `secret git-credential`
package struct SecretGitCredential: SecretVerb {
    package static let configuration = CommandConfiguration(
        commandName: "git-credential", abstract: "Act as a credential helper for git.",
        discussion: """
            Git runs it as git-credential-protectfs. Type once: git config --global credential.helper protectfs

            Passwords are internet passwords of the group. If there are several accounts for one server, none is \
            chosen unless git names one. While the keybag is locked, git asks you instead.
            """)

    @Argument(help: "What git asks for: get, store or erase.")
    package var operation: String
    @OptionGroup package var group: GroupOptions
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// `secret askpass`
package struct SecretAskpass: SecretVerb {
    package static let configuration = CommandConfiguration(
        commandName: "askpass", abstract: "Answer a prompt of ssh, git or sudo with a secret.",
        discussion: """
            ssh, git and sudo run it as protectfs-askpass, if SSH_ASKPASS, GIT_ASKPASS or SUDO_ASKPASS names that \
            program. The passphrase of an ssh key is the generic password of service ssh-key, with the path of the \
            key as account. The password of sudo is that of service sudo, with the user as account. All others are \
            internet passwords. Questions that ask for no secret, such as whether to trust a host key, are not \
            answered: exit status 66.
            """)

    @Argument(help: "The question.")
    package var question: String
    @OptionGroup package var group: GroupOptions
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}
