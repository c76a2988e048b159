import ArgumentParser
import DataProtection
import Glibc

/// Makes a keybag.
struct Init: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init", abstract: "Create a keybag and unlock it.",
        discussion: """
            Asks twice for a passcode of 1 to 1,024 bytes. Without passcode and recovery code nobody can open the \
            files, you included. The keybag is unlocked afterwards; lock it with: protectfs lock

            A weak passcode is accepted with a warning. At a terminal init also warns if the keys would stay in the \
            keyring after logout, and says what to type next.

            A recovery code opens the keybag if you forget the passcode or lose this machine. It is printed once. At \
            a terminal you must type one group of it before the keybag is created.

            With --tpm the passcode opens the keybag only on this machine, whose TPM limits how often one can be \
            tried. If the TPM fails, only the recovery code opens the keybag.
            """)

    @Flag(
        inversion: .prefixedNo,
        help: "Create and print a recovery code (default: ask at a terminal, otherwise create none).")
    var recoveryCode: Bool?
    @Flag(
        inversion: .prefixedNo,
        help: "Bind the keybag to this machine's TPM (default: ask at a terminal, otherwise do not).")
    var tpm: Bool?
    @OptionGroup var keybag: KeybagOption
    @OptionGroup var passcode: PasscodeOption

    func validate() throws {
        if tpm == true, passcode.descriptor != nil, recoveryCode == nil {
            throw ValidationError(
                "--tpm needs --recovery-code; or --no-recovery-code, to lose the files if the TPM fails")
        }
    }

    func run() throws {
        let location = keybag.location
        try refuseExisting(location)
        guard try !StoredPlace.of(location).isBelowDescriptor else {
            throw Failure(
                .usage, "\(quoted(location)) is in a mount, and a keybag there could not be read without the mount",
                hint: "choose a directory outside of it")
        }
        if tpm == true {
            try OwnerPasswordPrompt.ask(for: nil, isTyped: passcode.descriptor == nil)
            _ = try Keybag.usableHardware(for: location)
        }
        let secret = try PasscodeReader.readNew(
            from: passcode.descriptor, askpass: passcode.askpass, prompt: "New passcode: ")
        PasscodeStrength.warnIfWeak(secret, isTyped: passcode.descriptor == nil)
        let makesCode = try wantsRecoveryCode()
        if try wantsTPM(makesCode, location) {
            try createBound(at: location, secret, makesCode)
        } else {
            try create(at: location, secret, makesCode)
        }
        do {
            let keybag = try keybag.open()
            try keybag.unlock(passcode: secret)
            if passcode.descriptor == nil { sayWhatIsNext(keybag) }
        } catch {
            StandardError.line(.note, "keybag \(quoted(location)) is created but not unlocked")
            StandardError.line(.hint, "unlock it: protectfs unlock\(KeybagOption.words(for: location))")
            throw error
        }
    }

    /// To a person only.
    private func sayWhatIsNext(_ keybag: Keybag) {
        AgentProgram.warnIfMissing(for: keybag)
        guard isatty(2) == 1 else { return }
        let option = KeybagOption.words(for: keybag.directory)
        StandardError.line(
            .hint, "protect a file: protectfs protect\(option) FILE; when you leave: protectfs lock\(option)")
    }

    private func wantsRecoveryCode() throws(Failure) -> Bool {
        if let recoveryCode { return recoveryCode }
        guard NewRecoveryCode.canAsk(isTyped: passcode.descriptor == nil) else { return false }
        let question = "Make a recovery code, for when the passcode or this machine is lost? [Y/n] "
        return try Terminal.askWord(question)?.hasPrefix("n") != true
    }

    /// Only somebody who has a recovery code is asked, and only if the answer can be yes.
    private func wantsTPM(_ makesCode: Bool, _ location: FilePath) throws -> Bool {
        if let tpm {
            guard !tpm || makesCode || recoveryCode == false else { throw TPMEnroll.recoveryCodeMissing(location) }
            return tpm
        }
        guard makesCode, NewRecoveryCode.canAsk(isTyped: passcode.descriptor == nil),
            // Few people know the owner's password. They can give --tpm.
            let facts = try? Keybag.usableHardware(for: location), !facts.ownerHasPassword
        else { return false }
        return try Terminal.askWord("Bind to this machine's TPM? [Y/n] ")?.hasPrefix("n") != true
    }

    /// The disk never has a slot that the passcode alone opens: until the keybag is bound, only 32 random bytes open it, which nobody has.
    private func createBound(
        at location: FilePath, _ passcode: borrowing SecretBytes, _ makesCode: Bool
    ) throws {
        let nobodys: SecretBytes
        do throws(KeyError) { nobodys = try SecretBytes(randomByteCount: 32) } catch {
            throw DataProtectionError.cryptography(error)
        }
        try create(at: location, nobodys, makesCode)
        do throws(DataProtectionError) {
            let opened = try keybag.open().open(passcode: nobodys)
            try opened.setPasscode(passcode, .bound)
        } catch {
            _ = try KeybagErasure(at: location).perform(warn: ProtectionWarning.print)
            throw makesCode ? NewRecoveryCode.failure(error, keepsOld: false) : Failure(error)
        }
    }

    private func create(
        at location: FilePath, _ passcode: borrowing SecretBytes, _ makesCode: Bool
    ) throws {
        if makesCode {
            try create(at: location, passcode, andShow: NewRecoveryCode.make())
        } else {
            try Keybag.create(at: location, passcode: passcode)
        }
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
        } catch .because(KeybagFailure.keybagNotFound) {
            // rename(2) takes the place of an empty directory only.
            guard NamedItem.exists(location), (try? TreeWalk.contents(of: location)) != [] else { return }
            throw .exists(location)
        }
        throw .because(KeybagFailure.keybagExists(location))
    }
}
