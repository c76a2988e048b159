import ArgumentParser
import DataProtection

/// Writes the keybag to a file for safe keeping.
struct RecoveryExport: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Export the keybag to a text file for safekeeping.",
        discussion: """
            Needs no passcode. The export opens nothing by itself: only with the recovery code of its time, or on \
            this machine with the passcode of its time. Make a new export whenever the code or the passcode changes, \
            and destroy the earlier ones.
            """)

    @Argument(help: "The file to create. Choose a different disk from the keybag's.")
    var file: PathArgument
    @Flag(help: "Replace an existing file.")
    var replace = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        do throws(DataProtectionError) {
            try keybag.open().export(to: file.stored(followsLast: false), replacing: replace)
        } catch .exists(let path) {
            throw Failure(replaceable: DataProtectionError.exists(path))
        }
    }
}
