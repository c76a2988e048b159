import ArgumentParser
import DataProtection

/// Makes a recovery code, or replaces it.
struct RecoveryNew: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "new", abstract: "Create a recovery code. It replaces the current one.",
        discussion: """
            Asks for the passcode, in any lock state, and prints the code once. At a terminal you must type one \
            group of the code before it takes effect. Earlier exports and copies of the keybag still open with the \
            code of their time: make a new export and destroy the old ones.
            """)

    @OptionGroup var keybag: KeybagOption
    @OptionGroup var passcode: PasscodeOption

    func run() throws {
        let keybag = try keybag.open()
        try OwnerPasswordPrompt.ask(ifBound: keybag, isTyped: passcode.descriptor == nil)
        let secret = try PasscodeReader.read(from: passcode, for: keybag)
        let keepsOld = keybag.hasRecoveryCode
        let opened = try keybag.open(passcode: secret)
        let code = try NewRecoveryCode.make()
        try NewRecoveryCode.show(code, asking: NewRecoveryCode.canAsk(isTyped: passcode.descriptor == nil))
        do throws(DataProtectionError) { try opened.setRecoveryCode(code) } catch {
            throw NewRecoveryCode.failure(error, keepsOld: keepsOld)
        }
    }
}
