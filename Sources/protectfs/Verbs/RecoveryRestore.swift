import ArgumentParser
import DataProtection

/// Puts a keybag back from its export.
struct RecoveryRestore: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Put a keybag back from its export.",
        discussion: """
            Only where there is no keybag, or none that is whole. Damaged copies are kept beside it. Then unlock with the \
            passcode of the day of the export; on another machine, or when that is forgotten: protectfs passcode \
            --with-recovery-code
            """)

    @Argument(help: "What recovery export made; as mail brings it is fine too.")
    var file: PathArgument
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        try Keybag.restore(at: keybag.location, fromExport: file.path, warn: ProtectionWarning.print)
    }
}
