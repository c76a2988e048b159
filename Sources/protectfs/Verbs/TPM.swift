import ArgumentParser
import DataProtection

/// Binds the keybag to this machine's TPM.
struct TPM: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tpm", abstract: "Bind the keybag to this machine's TPM 2.0.",
        discussion: """
            The passcode of a bound keybag opens it only on this machine, and the TPM limits how often one can be \
            tried. A thief of the disk cannot guess even a 6-digit passcode. If the TPM fails or is cleared, only the \
            recovery code opens the keybag. If the owner of the TPM has a password, commands that change the binding ask \
            for it at the terminal.
            """,
        subcommands: [TPMEnroll.self, TPMRemove.self, TPMStatus.self])
}

struct TPMEnroll: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "enroll", abstract: "Bind the keybag to the TPM.",
        discussion: """
            Asks for the passcode, makes new class keys and wraps the keys of all files below the roots with them, as \
            protectfs rotate does: copies of the keybag from before open with the passcode alone, and must not open \
            the files. The keybag must be unlocked for that. A recovery code is replaced, and the new one is printed. \
            First-unlock secrets are removed.
            """)

    @Flag(help: "Keep the class keys. Earlier copies of the keybag open all files with the passcode alone.")
    var keepKeys = false
    @Flag(help: "Bind a keybag that has no recovery code. If the TPM fails, every file is lost.")
    var noRecoveryCode = false
    @OptionGroup var roots: RotationRoots
    @OptionGroup var passcode: PasscodeOption
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let keybag = try keybag.open()
        // Before anybody types a passcode.
        guard !keybag.isBoundToHardware else { throw keybag.failure(.alreadyBound) }
        try OwnerPasswordPrompt.ask(for: keybag, isTyped: passcode.descriptor == nil)
        let facts = try Keybag.usableHardware(for: keybag.directory)
        guard keybag.hasRecoveryCode || noRecoveryCode else { throw Self.recoveryCodeMissing(keybag.directory) }
        if !keepKeys { try Rotate.refuseLocked(keybag) }
        let paths = keepKeys ? [] : try roots.checked()
        let secret = try PasscodeReader.read(from: passcode, for: keybag)
        let opened = try keybag.open(passcode: secret)
        if keepKeys {
            try opened.setPasscode(secret, .bound)
        } else {
            try Rotate.makeKeys(opened, secret, .bound, isTyped: passcode.descriptor == nil)
        }
        warn(facts, keybag)
        if !keepKeys { try RewrapPass(keybag: keybag, roots: roots).perform(paths) }
    }

    static func recoveryCodeMissing(_ directory: FilePath) -> Failure {
        Failure(
            .refused, "keybag \(quoted(directory)) has no recovery code, and nothing else opens it if the TPM fails",
            hint:
                "make one: protectfs recovery new\(KeybagOption.words(for: directory)); or do without: --no-recovery-code"
        )
    }

    private func warn(_ facts: HardwareFacts, _ keybag: Keybag) {
        if case .made = KeybagHealth(of: keybag.directory).export {
            StandardError.line(.warning, "the last recovery export opens with its passcode alone, on this machine")
            let option = KeybagOption.words(for: keybag.directory)
            StandardError.line(
                .hint, "make a new one, and destroy the old ones: protectfs recovery export\(option) FILE")
        }
        for copy in (try? keybag.file.copiesAside()) ?? [] {
            StandardError.line(
                .warning, "\(quoted(copy)) opens with its passcode alone; delete it: shred -u \(quoted(copy))")
        }
        if !facts.lockoutHasPassword {
            StandardError.line(.warning, "anybody with this machine can reset the TPM's count of wrong passcodes")
            StandardError.line(.hint, "how to prevent it: protectfs doctor")
        }
    }
}

struct TPMRemove: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Release the keybag: the passcode opens it without the TPM again.",
        discussion: """
            Asks for the passcode, in any lock state, and destroys the secret in the TPM. Without the TPM, use the \
            recovery code instead: protectfs passcode --with-recovery-code
            """)

    @OptionGroup var passcode: PasscodeOption
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let keybag = try keybag.open()
        guard keybag.isBoundToHardware else { throw keybag.failure(.notBound) }
        try OwnerPasswordPrompt.ask(ifBound: keybag, isTyped: passcode.descriptor == nil)
        let secret = try PasscodeReader.read(from: passcode, for: keybag)
        try keybag.open(passcode: secret).setPasscode(secret, .unbound)
    }
}

struct TPMStatus: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show the TPM, and whether the keybag is bound to it.",
        discussion: "Needs no passcode, and spends no try. The exit status is 66 if the keybag is not bound.")

    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let report = HardwareReport(of: try keybag.open())
        if json {
            try JSON.object([("bound", .bool(report.isBound)), ("hardware", report.json)]).print()
        } else {
            var lines = OutputLines()
            for line in [report.isBound ? "bound" : "not bound", report.text] { try lines.add(Array(line.utf8)) }
            try lines.finish()
        }
        if !report.isBound { throw ExitStatus.notFound }
    }
}
