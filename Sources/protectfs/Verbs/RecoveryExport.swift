import ArgumentParser
import DataProtection

/// Writes the keybag to a file for safe keeping.
struct RecoveryExport: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Export the keybag to a text file for safekeeping.",
        discussion: """
            Needs no passcode, and opens nothing by itself: only with the recovery code of its day, or with the passcode of \
            its day on this machine. So make it when there is a recovery code, and anew when that or the passcode changes; \
            destroy the ones before.
            """)

    @Argument(help: "The file to create. Choose a different disk from the keybag's.")
    var file: PathArgument
    @Flag(help: "Replace an existing file.")
    var replace = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        do throws(DataProtectionError) {
            try keybag.open().export(to: file.path, replacing: replace)
        } catch .exists(let path) {
            throw Failure(replaceable: DataProtectionError.exists(path))
        }
    }
}
