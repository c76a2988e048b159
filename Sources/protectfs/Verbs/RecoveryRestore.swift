import ArgumentParser
import DataProtection

/// Puts a keybag back from its export.
struct RecoveryRestore: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Restore a keybag from its export.",
        discussion: """
            Only where there is no keybag, or none that is whole. Damaged copies are kept beside it. Then unlock with the \
            passcode of the day of the export; on another machine, or when that is forgotten: protectfs passcode \
            --with-recovery-code
            """)

    @Argument(help: "The file that recovery export wrote; a copy that was sent by mail works too.")
    var file: PathArgument
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        try Keybag.restore(at: keybag.location, fromExport: file.path, warn: ProtectionWarning.print)
    }
}
