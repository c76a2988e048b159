import ArgumentParser
import DataProtection

/// Changes the passcode.
struct Passcode: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "passcode", abstract: "Change the passcode. Protected files are not rewritten.",
        discussion: """
            The keybag must be unlocked. Copies of the keybag that were made earlier still open with the old \
            passcode, until protectfs rotate. A weak new passcode is accepted with a warning. --passcode-fd and \
            --new-passcode-fd may be the same descriptor: the current passcode on the first line, the new one on the \
            second.

            With --with-recovery-code the recovery code replaces the current passcode. This works in any lock state \
            and on another machine. The code cannot be used again: a new one is printed, and at a terminal you must \
            type one group of it before anything changes.
            """)

    @OptionGroup var passcode: PasscodeOption
    @Option(
        name: .customLong("new-passcode-fd"),
        help: SecretDescriptor.line("the new passcode"), transform: SecretDescriptor.open)
    var newDescriptor: Int32?
    @Flag(help: "Use the recovery code instead of the current passcode. A new code is printed.")
    var withRecoveryCode = false
    @Option(
        name: .customLong("recovery-code-fd"),
        help: SecretDescriptor.line("the recovery code"), transform: SecretDescriptor.open)
    var recoveryDescriptor: Int32?
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        if recoveryDescriptor != nil, !withRecoveryCode {
            throw ValidationError("--recovery-code-fd goes with --with-recovery-code")
        }
        if passcode.descriptor != nil, withRecoveryCode {
            throw ValidationError("--with-recovery-code needs no current passcode, so no --passcode-fd")
        }
    }

    func run() throws {
        let keybag = try keybag.open()
        if withRecoveryCode { try recover(keybag) } else { try change(keybag) }
    }

    private func change(_ keybag: Keybag) throws {
        let status = try keybag.status()
        guard status.state == .unlocked else {
            throw DataProtectionError.because(
                KeybagFailure.locked(
                    path: keybag.directory, .complete, .changePasscode, state: status.state,
                    since: status.lastTransition))
        }
        try OwnerPasswordPrompt.ask(ifBound: keybag, isTyped: passcode.descriptor == nil)
        let current = try PasscodeReader.read(from: passcode, for: keybag, prompt: "Current passcode: ")
        // A wrong one is said before the new one is typed twice.
        let opened = try keybag.open(passcode: current)
        try opened.changePasscode(to: newPasscode())
    }

    private func recover(_ keybag: Keybag) throws {
        guard keybag.hasRecoveryCode else {
            throw DataProtectionError.because(KeybagFailure.noRecoveryCode(keybag.directory))
        }
        try OwnerPasswordPrompt.ask(ifBound: keybag, isTyped: recoveryDescriptor == nil)
        let opened = try keybag.open(recoveryCode: RecoveryCodeReader.read(from: recoveryDescriptor))
        let new = try newPasscode()
        let code = try NewRecoveryCode.make()
        try NewRecoveryCode.show(code, asking: NewRecoveryCode.canAsk(isTyped: recoveryDescriptor == nil))
        let wasBound = keybag.isBoundToHardware
        do throws(DataProtectionError) { try opened.recover(passcode: new, recoveryCode: code) } catch {
            throw NewRecoveryCode.failure(error, keepsOld: true)
        }
        if wasBound, !keybag.isBoundToHardware {
            StandardError.line(.note, "the keybag is no longer bound to the TPM")
            StandardError.line(
                .hint, "to bind it again: protectfs tpm enroll\(KeybagOption.words(for: keybag.directory))")
        }
    }

    private func newPasscode() throws(Failure) -> SecretBytes {
        let new = try PasscodeReader.readNew(
            from: newDescriptor, askpass: passcode.askpass, option: "--new-passcode-fd", prompt: "New passcode: ")
        PasscodeStrength.warnIfWeak(new, isTyped: newDescriptor == nil)
        return new
    }
}
