import ArgumentParser
import DataProtection

/// Makes a keybag.
struct Init: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init", abstract: "Make a keybag, and unlock it for the first time.",
        discussion: """
            Asks twice for a passcode of 1 to 1,024 bytes. Without the passcode nobody can open the files, you included. \
            The keybag is unlocked afterwards; lock it with: protectfs lock

            A recovery code opens the keybag when the passcode is forgotten or this machine is lost. It is printed once; at a \
            terminal one of its groups is asked back before the keybag is made.
            """)

    @Flag(
        inversion: .prefixedNo,
        help: "Make a recovery code and print it (default: ask at a terminal; none where nobody can be asked).")
    var recoveryCode: Bool?
    @OptionGroup var keybag: KeybagOption
    @OptionGroup var passcode: PasscodeOption

    func run() throws {
        let location = keybag.location
        try refuseExisting(location)
        let secret = try PasscodeReader.readNew(
            from: passcode.descriptor, askpass: passcode.askpass, prompt: "New passcode: ")
        if try wantsRecoveryCode() {
            try create(at: location, secret, andShow: NewRecoveryCode.make())
        } else {
            try Keybag.create(at: location, passcode: secret)
        }
        do { try keybag.open().unlock(passcode: secret) } catch {
            StandardError.line(.note, "keybag \(quoted(location)) is made, and not unlocked")
            StandardError.line(.hint, "unlock it: protectfs unlock\(KeybagOption.words(for: location))")
            throw error
        }
    }

    private func wantsRecoveryCode() throws(Failure) -> Bool {
        if let recoveryCode { return recoveryCode }
        guard NewRecoveryCode.canAsk(isTyped: passcode.descriptor == nil) else { return false }
        let question = "Make a recovery code, for when the passcode or this machine is lost? [Y/n] "
        return try Terminal.askWord(question)?.hasPrefix("n") != true
    }

    private func create(
        at location: FilePath, _ passcode: borrowing SecretBytes, andShow code: borrowing RecoveryCode
    ) throws(Failure) {
        try NewRecoveryCode.show(code, asking: NewRecoveryCode.canAsk(isTyped: self.passcode.descriptor == nil))
        do throws(DataProtectionError) {
            try Keybag.create(at: location, passcode: passcode, recoveryCode: code)
        } catch {
            throw NewRecoveryCode.failure(error, keepsOld: false)
        }
    }

    /// Before anything is asked.
    private func refuseExisting(_ location: FilePath) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            _ = try keybag.open()
        } catch .keybagNotFound {
            // rename(2) takes the place of an empty directory only.
            guard NamedItem.exists(location), (try? TreeWalk.contents(of: location)) != [] else { return }
            throw .exists(location)
        }
        throw .keybagExists(location)
    }
}
