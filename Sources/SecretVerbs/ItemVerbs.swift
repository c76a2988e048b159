/// `secret add`
package struct SecretAdd: SecretVerb {
    package static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Store a new secret (status 73 if it exists already).",
        discussion: """
            The value is typed, without being shown; or, where there is no terminal or with --value-fd, read up to the end. It \
            is never an argument. Of an identity it is the PKCS #12 file.
            """)

    @OptionGroup package var name: NameOptions
    @Option(help: "The lock states in which it can be read (default: when-unlocked).")
    package var accessibility: AccessibilityArgument?
    @OptionGroup package var value: ValueOptions
    @OptionGroup package var group: GroupOptions
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// `secret set`
package struct SecretSet: SecretVerb {
    package static let configuration = CommandConfiguration(
        commandName: "set", abstract: "Store a secret, or replace an existing one.",
        discussion: """
            Without --accessibility the secret is when-unlocked. One that is of this device only stays so, and one that has this \
            value already keeps its accessibility; update keeps it for any value. One that no longer opens, and does not say that it is of \
            this device only, is replaced only with --accessibility. The value is taken as by add.
            """)

    @OptionGroup package var name: NameOptions
    @Option(help: "The lock states in which it can be read.")
    package var accessibility: AccessibilityArgument?
    @OptionGroup package var value: ValueOptions
    @OptionGroup package var group: GroupOptions
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// `secret update`
package struct SecretUpdate: SecretVerb {
    package static let configuration = CommandConfiguration(
        commandName: "update", abstract: "Change an existing secret (status 66 if there is none).",
        discussion: "The value is taken as by add; with --keep-value only the accessibility changes.")

    @OptionGroup package var name: NameOptions
    @Option(help: "The lock states in which it can be read from now on.")
    package var accessibility: AccessibilityArgument?
    @Flag(help: "Keep the value: only --accessibility changes.")
    package var keepValue = false
    @OptionGroup package var value: ValueOptions
    @OptionGroup package var group: GroupOptions
    @OptionGroup package var keybag: KeybagOption

    package init() {}

    package func validate() throws {
        if keepValue, accessibility == nil { throw ValidationError("--keep-value goes with --accessibility") }
        if keepValue, value.descriptor != nil {
            throw ValidationError("--keep-value and --value-fd exclude each other")
        }
    }
}

/// `secret get`
package struct SecretGet: SecretVerb {
    package static let configuration = CommandConfiguration(
        commandName: "get", abstract: "Print the value of a secret.",
        discussion: """
            With a newline behind it, which --raw leaves out. Of an identity it is the PKCS #12 file, without a newline; or, \
            with --passphrase, what opens that.

            A single name finds the secret that has it as its service, account, host or identity, if there is only one in the \
            group. Scripts should give the options: secrets that are added later can make a name ambiguous.
            """)

    @Argument(help: "A service, account, host or identity, instead of the options, if only one secret has it.")
    package var name: String?
    @OptionGroup package var attributes: AttributeOptions
    @Flag(help: "Print no newline after the value.")
    package var raw = false
    @Flag(help: "Print the passphrase of an identity's PKCS #12 file.")
    package var passphrase = false
    @OptionGroup package var group: GroupOptions
    @OptionGroup package var keybag: KeybagOption

    package init() {}

    package func validate() throws {
        if passphrase, attributes.identity == nil { throw ValidationError("--passphrase goes with --identity") }
        guard let name else { return try attributes.checkThatTheyName() }
        if name.isEmpty { throw ValidationError("the name is empty") }
        if !attributes.isEmpty { throw ValidationError("give a name or options such as --service, not both") }
    }
}

/// `secret delete`
package struct SecretDelete: SecretVerb {
    package static let configuration = CommandConfiguration(
        commandName: "delete", abstract: "Delete a secret, in any lock state.",
        discussion: """
            With --damaged those that make no sense, in all groups: something else has written to them, no name leads to them, and \
            they keep an export from being whole and retired class keys from being forgotten.
            """)

    @OptionGroup package var attributes: AttributeOptions
    @Flag(help: "Delete the damaged secrets of all groups, instead of one by its name.")
    package var damaged = false
    @OptionGroup package var group: GroupOptions
    @OptionGroup package var keybag: KeybagOption

    package init() {}

    package func validate() throws {
        guard damaged else { return try attributes.checkThatTheyName() }
        if !attributes.isEmpty || group.group != nil {
            throw ValidationError("--damaged stands alone: what it deletes has no name")
        }
    }
}

/// `secret find`
package struct SecretFind: SecretVerb {
    package static let configuration = CommandConfiguration(
        commandName: "find", abstract: "List the secrets that match, without their values.",
        discussion: """
            In every lock state. Only the private group is searched, or --group; --all-groups searches all, and marks names that \
            stand in several of them. Nothing found is no error. What is listed is authenticated when its value is read.
            """, aliases: ["list"])

    @OptionGroup package var attributes: AttributeOptions
    @Option(help: "List only secrets with this accessibility.")
    package var accessibility: AccessibilityArgument?
    @Flag(help: "Search all groups, including those of other programs.")
    package var allGroups = false
    @Flag(help: "Print the result as JSON.")
    package var json = false
    @OptionGroup package var group: GroupOptions
    @OptionGroup package var keybag: KeybagOption

    package init() {}

    package func validate() throws {
        if allGroups, group.group != nil { throw ValidationError("--all-groups and --group exclude each other") }
    }
}
