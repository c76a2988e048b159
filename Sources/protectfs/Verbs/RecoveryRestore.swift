import ArgumentParser
import DataProtection

/// Puts a keybag back from its export.
struct RecoveryRestore: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Restore a keybag from its export.",
        discussion: """
            Works only if there is no keybag, or a damaged one. Damaged copies are kept beside it. Then unlock with \
            the passcode of the time of the export. On another machine, or if you forgot that passcode: protectfs \
            passcode --with-recovery-code
            """)

    @Argument(help: "The file that recovery export wrote; a copy that was sent by mail works too.")
    var file: PathArgument
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        try Keybag.restore(at: keybag.location, fromExport: file.path, warn: ProtectionWarning.print)
    }
}
