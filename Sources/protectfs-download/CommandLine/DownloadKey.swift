/// `download key`
struct DownloadKey: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key", abstract: "Manage the keys for --hmac.",
        discussion: """
            A key is at least 32 bytes that the author and the receiver of a file share. Its id is the name that \
            both use for it. Keys and ids are encrypted in the list.
            """,
        subcommands: [DownloadKeyAdd.self, DownloadKeyList.self, DownloadKeyRetire.self])
}

/// `download key add`
struct DownloadKeyAdd: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Store a key under an id.",
        discussion: """
            The key is all bytes of the descriptor, including a newline at its end. An id is never given to a second \
            key, not even after the first was retired.
            """)

    @Argument(help: "The id of the key, as --hmac names it.")
    var id: String
    @Option(
        name: .customLong("key-fd"), help: SecretDescriptor.whole("the key"), transform: SecretDescriptor.open)
    var descriptor: Int32?
    @Option(help: .hidden)  // the old way
    var keyFile: PathArgument?
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        guard (descriptor == nil) != (keyFile == nil) else {
            throw ValidationError("give the key: \(SecretDescriptor.example("--key-fd"))")
        }
    }
}

/// `download key list`
struct DownloadKeyList: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the ids of the keys, and which ones are retired.")

    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption
}

/// `download key retire`
struct DownloadKeyRetire: DownloadVerb {
    static let configuration = CommandConfiguration(
        commandName: "retire", abstract: "Destroy a key. Downloads that need it fail.")

    @Argument(help: "The id of the key.")
    var id: String
    @OptionGroup var keybag: KeybagOption
}
