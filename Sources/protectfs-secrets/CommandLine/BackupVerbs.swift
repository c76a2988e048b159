/// What `protectfs backup` has this program do: copies secrets as they are stored. No verb of a user's. The backup's directory is open
/// as descriptor 3; its path is for messages.
struct CopySecrets: SecretVerb {
    static let configuration = CommandConfiguration(commandName: "copy-to-backup", shouldDisplay: false)

    @Argument var backup: PathArgument
    @Flag var delete = false
    @OptionGroup var keybag: KeybagOption
}

/// What `protectfs restore` has this program do: brings secrets of a backup back. No verb of a user's. The backup's directory is
/// open as descriptor 3; its path is for messages.
struct RestoreSecrets: SecretVerb {
    static let configuration = CommandConfiguration(commandName: "restore-from-backup", shouldDisplay: false)

    @Argument var backup: PathArgument
    @Flag var replace = false
    @Flag var dryRun = false
    @OptionGroup var keybag: KeybagOption
}
