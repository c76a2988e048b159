/// `secret export`
package struct SecretExport: SecretVerb {
    package static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Export secrets with their values to a protected file.",
        discussion: """
            The file gets the class complete. To a dash they are written to standard output, in clear: each two lines, what it is \
            for as JSON, and its value in base 64. Secrets of this device only are left out.
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
            A protected file, a plain one, or a dash for standard input. Each secret goes to the group that it came from. One that \
            is there already ends the import with status 73, and nothing is changed; --replace replaces it.
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
        discussion:
            "After a rotation that could not do it. No value is touched, and what is done already is left alone.")

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
            git config --global credential.helper protectfs

            git runs git-credential-protectfs, which is this verb under another name, and says what it wants on standard input \
            (git-credential(1)). Passwords are internet passwords of the group --app names. While the keybag is locked git is \
            told so, and asks.
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
            SSH_ASKPASS=protectfs-askpass, GIT_ASKPASS, SUDO_ASKPASS: that program is this verb under another name. It prints the \
            secret that the question is about: the passphrase of an ssh key is the generic password of service ssh-key and the \
            key's path; a password is the internet password of protocol and host. Other questions, as whether a host's key is to \
            be trusted, it does not answer: status 66.
            """)

    @Argument(help: "The question.")
    package var question: String
    @OptionGroup package var group: GroupOptions
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}
