/// `secret add`
package struct SecretAdd: SecretVerb {
    package static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Keep a secret that is not there yet (status 73 if it is).",
        discussion: """
            The value is typed, without being shown; or, where there is no terminal or with --value-fd, read up to the end. It \
            is never an argument. Of an identity it is the PKCS #12 file.
            """)

    @OptionGroup package var name: NameOptions
    @Option(help: "In which lock states it can be read (default: when-unlocked).")
    package var accessibility: AccessibilityArgument?
    @OptionGroup package var value: ValueOptions
    @OptionGroup package var group: GroupOptions
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// `secret set`
package struct SecretSet: SecretVerb {
    package static let configuration = CommandConfiguration(
        commandName: "set", abstract: "Keep a secret, whether it is there already or not.",
        discussion: """
            Without --accessibility the secret is when-unlocked. One that is of this device only stays so, and one that has this \
            value already keeps its accessibility; update keeps it for any value. The value is taken as by add.
            """)

    @OptionGroup package var name: NameOptions
    @Option(help: "In which lock states it can be read.")
    package var accessibility: AccessibilityArgument?
    @OptionGroup package var value: ValueOptions
    @OptionGroup package var group: GroupOptions
    @OptionGroup package var keybag: KeybagOption

    package init() {}
}

/// `secret update`
package struct SecretUpdate: SecretVerb {
    package static let configuration = CommandConfiguration(
        commandName: "update", abstract: "Change a secret that is there (status 66 if it is not).",
        discussion: "The value is taken as by add; with --keep-value only the accessibility changes.")

    @OptionGroup package var name: NameOptions
    @Option(help: "In which lock states it can be read from now on.")
    package var accessibility: AccessibilityArgument?
    @Flag(help: "Leave the value as it is: only --accessibility changes.")
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
    @Flag(help: "No newline behind the value.")
    package var raw = false
    @Flag(help: "Of an identity: what opens its PKCS #12.")
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
        commandName: "delete", abstract: "Delete a secret, in every lock state.",
        discussion: """
            With --damaged those that make no sense, in all groups: something else has written to them, no name leads to them, and \
            they keep an export from being whole and retired class keys from being forgotten.
            """)

    @OptionGroup package var attributes: AttributeOptions
    @Flag(help: "Those that make no sense, in all groups, instead of one by its name.")
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
        commandName: "find", abstract: "List secrets by what is known of them, without their values.",
        discussion: """
            In every lock state. Only the private group is searched, or --group; --all-groups searches all, and marks names that \
            stand in several of them. Nothing found is no error. What is listed is authenticated when its value is read.
            """, aliases: ["list"])

    @OptionGroup package var attributes: AttributeOptions
    @Option(help: "Only those of this accessibility.")
    package var accessibility: AccessibilityArgument?
    @Flag(help: "In all groups, those of other programs too.")
    package var allGroups = false
    @Flag(help: "As JSON.")
    package var json = false
    @OptionGroup package var group: GroupOptions
    @OptionGroup package var keybag: KeybagOption

    package init() {}

    package func validate() throws {
        if allGroups, group.group != nil { throw ValidationError("--all-groups and --group exclude each other") }
    }
}
