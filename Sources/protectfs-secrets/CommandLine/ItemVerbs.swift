/// `secret add`
struct SecretAdd: SecretVerb {
    static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Store a new secret (status 73 if it exists already).",
        discussion: """
            At a terminal the value is typed and not shown. Without a terminal, or with --value-fd, it is read up to \
            end of file. It is never an argument. The value of an identity is its PKCS #12 file.
            """)

    @OptionGroup var name: NameOptions
    @Option(help: "The lock states in which it can be read (default: when-unlocked).")
    var accessibility: AccessibilityArgument?
    @OptionGroup var value: ValueOptions
    @OptionGroup var group: GroupOptions
    @OptionGroup var keybag: KeybagOption
}

/// `secret set`
struct SecretSet: SecretVerb {
    static let configuration = CommandConfiguration(
        commandName: "set", abstract: "Store a secret, or replace an existing one.",
        discussion: """
            Without --accessibility the secret is when-unlocked. A secret of this device only stays so. A secret \
            that has this value already keeps its accessibility; protectfs secret update keeps it for any value. A \
            secret that cannot be opened is replaced only with --accessibility, unless it says that it is of this \
            device only. The value is read as by protectfs secret add.
            """)

    @OptionGroup var name: NameOptions
    @Option(help: "The lock states in which it can be read.")
    var accessibility: AccessibilityArgument?
    @OptionGroup var value: ValueOptions
    @OptionGroup var group: GroupOptions
    @OptionGroup var keybag: KeybagOption
}

/// `secret update`
struct SecretUpdate: SecretVerb {
    static let configuration = CommandConfiguration(
        commandName: "update", abstract: "Change an existing secret (status 66 if there is none).",
        discussion: """
            The value is read as by protectfs secret add. With --keep-value only the accessibility changes.
            """)

    @OptionGroup var name: NameOptions
    @Option(help: "The lock states in which it can be read from now on.")
    var accessibility: AccessibilityArgument?
    @Flag(help: "Keep the value: only --accessibility changes.")
    var keepValue = false
    @OptionGroup var value: ValueOptions
    @OptionGroup var group: GroupOptions
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        if keepValue, accessibility == nil { throw ValidationError("--keep-value goes with --accessibility") }
        if keepValue, value.descriptor != nil {
            throw ValidationError("--keep-value and --value-fd exclude each other")
        }
    }
}

/// `secret get`
struct SecretGet: SecretVerb {
    static let configuration = CommandConfiguration(
        commandName: "get", abstract: "Print the value of a secret.",
        discussion: """
            A newline follows the value, unless you give --raw. The value of an identity is its PKCS #12 file, \
            without a newline; --passphrase prints the passphrase of that file.

            A single name finds the secret that has it as its service, account, host or identity, if there is only \
            one in the group. Scripts should give the options: secrets that are added later can make a name \
            ambiguous.
            """)

    @Argument(help: "A service, account, host or identity, instead of the options, if only one secret has it.")
    var name: String?
    @OptionGroup var attributes: AttributeOptions
    @Flag(help: "Print no newline after the value.")
    var raw = false
    @Flag(help: "Print the passphrase of an identity's PKCS #12 file.")
    var passphrase = false
    @OptionGroup var group: GroupOptions
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        if passphrase, attributes.identity == nil { throw ValidationError("--passphrase goes with --identity") }
        guard let name else { return try attributes.checkThatTheyName() }
        if name.isEmpty { throw ValidationError("the name is empty") }
        try AttributeOptions.requireUTF8(name)
        if !attributes.isEmpty { throw ValidationError("give a name or options such as --service, not both") }
    }
}

/// `secret delete`
struct SecretDelete: SecretVerb {
    static let configuration = CommandConfiguration(
        commandName: "delete", abstract: "Delete a secret, in any lock state.",
        discussion: """
            With --damaged the damaged secrets of all groups are deleted. Something else has written to them, and no \
            name leads to them. They make exports incomplete and keep retired class keys from being deleted.
            """)

    @OptionGroup var attributes: AttributeOptions
    @Flag(help: "Delete the damaged secrets of all groups, instead of one by its name.")
    var damaged = false
    @OptionGroup var group: GroupOptions
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        guard damaged else { return try attributes.checkThatTheyName() }
        if !attributes.isEmpty || group.group != nil {
            throw ValidationError("--damaged stands alone: what it deletes has no name")
        }
    }
}

/// `secret find`
struct SecretFind: SecretVerb {
    static let configuration = CommandConfiguration(
        commandName: "find", abstract: "List the secrets that match, without their values.",
        discussion: """
            Works in every lock state. Searches only the private group, or --group; with --all-groups all groups, \
            and marks names that are in several of them. It is not an error if nothing matches. A listed entry is \
            authenticated only when its value is read.
            """, aliases: ["list"])

    @OptionGroup var attributes: AttributeOptions
    @Option(help: "List only secrets with this accessibility.")
    var accessibility: AccessibilityArgument?
    @Flag(help: "Search all groups, including those of other programs.")
    var allGroups = false
    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var group: GroupOptions
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        if allGroups, group.group != nil { throw ValidationError("--all-groups and --group exclude each other") }
    }
}
