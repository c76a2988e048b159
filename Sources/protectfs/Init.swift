import ArgumentParser
import DataProtection

/// Makes a keybag.
struct Init: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init", abstract: "Make a keybag, and unlock it for the first time.",
        discussion: """
            Asks twice for a passcode of 1 to 1,024 bytes. Without the passcode nobody can open the files, you included. \
            The keybag is unlocked afterwards; lock it with: protectfs lock
            """)

    @OptionGroup var keybag: KeybagOption
    @OptionGroup var passcode: PasscodeOption

    func run() throws {
        let location = keybag.location
        try refuseExisting(location)
        let secret = try PasscodeReader.readNew(from: passcode.descriptor, prompt: "New passcode: ")
        try Keybag.create(at: location, passcode: secret)
        try keybag.open().unlock(passcode: secret)
    }

    /// Before anything is asked.
    private func refuseExisting(_ location: FilePath) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            _ = try keybag.open()
        } catch .keybagNotFound {
            return
        }
        throw .keybagExists(location)
    }
}
