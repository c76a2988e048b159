import ArgumentParser
import DataProtection
import Glibc

/// Replaces the class keys, so that a stolen copy of the keybag opens nothing any more.
///
/// Without `--resume` it always makes new keys, and with `--resume` never. A command that guessed could continue a rotation that a
/// damaged file had stopped years ago, and do nothing about a copy that was stolen yesterday. No note says what is left to do: a
/// head tells without a key whether its file is current, so a pass is simply repeated.
struct Rotate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate",
        abstract: "Replace the class keys, so that old copies of the keybag no longer open the files.",
        usage: """
            protectfs rotate [--root DIR]… [--resume] [--json]
                   protectfs rotate --forget [--root DIR]… [--allow-loss] [--yes]
            """,
        discussion: """
            Use it when somebody else may have a copy of the keybag. Asks for the passcode, makes new class keys, \
            and wraps the key of every protected file below the roots with them: a few KiB per file, never its data. \
            The keybag must be unlocked. A lock, or Ctrl-C, stops between two files; --resume continues, without new \
            keys and without the passcode.

            Old copies of the keybag do not open rotated files, even with its passcode. The passcode stays the same: \
            if somebody knows it, change it first. A recovery code is replaced, and the new one is printed. First-unlock \
            secrets are removed: make new ones with protectfs service-secret add

            The old class keys are retired: they still open files that were not rotated, and wrap nothing new. With \
            --forget the retired keys are deleted, after a search for files below the roots that still need them.
            """)

    @OptionGroup var roots: RotationRoots
    @Flag(help: "Continue an earlier rotation. No new keys are made.")
    var resume = false
    @Flag(help: "Delete the retired class keys. Files and secrets that still need them can never be read again.")
    var forget = false
    @Flag(help: "With --forget: delete the keys even if files or secrets still need them.")
    var allowLoss = false
    @Flag(help: "With --forget: do not ask for confirmation.")
    var yes = false
    @Flag(help: "Print JSON: every file of this keybag, and a summary.")
    var json = false
    @OptionGroup var passcode: PasscodeOption
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        if resume, forget { throw ValidationError("--resume cannot be used with --forget") }
        if resume, passcode.descriptor != nil {
            throw ValidationError("--resume needs no passcode, so no --passcode-fd")
        }
        if resume, passcode.askpass != nil { throw ValidationError("--resume needs no passcode, so no --askpass") }
        if !forget, allowLoss { throw ValidationError("--allow-loss needs --forget") }
        if !forget, yes { throw ValidationError("--yes needs --forget") }
    }

    func run() throws {
        let keybag = try keybag.open()
        let paths = try roots.checked()
        if forget {
            try forget(keybag, paths)
        } else {
            if !resume {
                try makeKeys(keybag)
                warnOfExport(keybag)
            }
            try pass(keybag).perform(paths)
        }
    }

    private func pass(_ keybag: Keybag) -> RewrapPass { RewrapPass(keybag: keybag, roots: roots, isJSON: json) }

    // MARK: new keys

    private func makeKeys(_ keybag: Keybag) throws {
        guard !json || !keybag.hasRecoveryCode else {
            throw Failure(
                .usage, "the new recovery code and --json cannot share standard output",
                hint: "in two steps: protectfs rotate, then protectfs rotate --resume --json")
        }
        try Self.refuseLocked(keybag)
        try OwnerPasswordPrompt.ask(ifBound: keybag, isTyped: passcode.descriptor == nil)
        let secret = try PasscodeReader.read(from: passcode, for: keybag)
        let opened = try keybag.open(passcode: secret)
        let binding = opened.binding
        try Self.makeKeys(opened, secret, binding, isTyped: passcode.descriptor == nil)
    }

    /// Makes new class keys, and a new recovery code if there was one.
    ///
    /// - Parameter isTyped: whether somebody typed the passcode.
    static func makeKeys(
        _ opened: consuming OpenedKeybag, _ passcode: borrowing SecretBytes, _ binding: HardwareBinding, isTyped: Bool
    ) throws {
        let keybag = opened.keybag
        let removed = keybag.firstUnlockSecrets
        defer { warn(of: removed, keybag) }
        guard keybag.hasRecoveryCode else {
            _ = try opened.rotate(passcode, nil, binding) { _ in nil }
            return
        }
        let code = try NewRecoveryCode.make()
        try NewRecoveryCode.show(code, asking: NewRecoveryCode.canAsk(isTyped: isTyped))
        do throws(DataProtectionError) {
            try opened.rotate(passcode: passcode, recoveryCode: code, binding)
        } catch {
            throw NewRecoveryCode.failure(error, keepsOld: true)
        }
    }

    /// The next start of the machine would find out.
    private static func warn(of removed: [FirstUnlockSecretEntry], _ keybag: Keybag) {
        guard !removed.isEmpty, keybag.firstUnlockSecrets.isEmpty else { return }
        let names = removed.map { quoted($0.name) }.joined(separator: ", ")
        StandardError.line(.warning, "first-unlock secrets no longer open the keybag: \(names)")
        StandardError.line(
            .hint, "make new ones: protectfs service-secret add\(KeybagOption.words(for: keybag.directory)) NAME")
    }

    /// After restoring it, nobody could open a file that was rotated.
    private func warnOfExport(_ keybag: Keybag) {
        guard case .made = KeybagHealth(of: keybag.directory).export else { return }
        StandardError.line(.warning, "the last recovery export does not open the rotated files")
        StandardError.line(
            .hint, "make a new one: protectfs recovery export\(KeybagOption.words(for: keybag.directory)) FILE")
    }

    /// Before anybody types a passcode.
    static func refuseLocked(_ keybag: Keybag) throws(DataProtectionError) {
        let status = try keybag.status()
        guard status.state == .unlocked else {
            throw .because(
                KeybagFailure.locked(
                    path: keybag.directory, .complete, .rotateKeys, state: status.state, since: status.lastTransition))
        }
    }

    // MARK: forgetting

    private func forget(_ keybag: Keybag, _ paths: [FilePath]) throws {
        // Of before the look: another rotation meanwhile retires keys that the look found in order.
        let generation = keybag.activeGeneration
        let retired = keybag.retiredGenerations.filter { $0 < generation }
        if retired.isEmpty {
            StandardError.line(.note, "there are no retired class keys")
            let run = RotationRun(.look, keybag: keybag, threads: 0, isJSON: json, total: 0)
            return try run.finishDocument(generation: keybag.activeGeneration, retired: [])
        }
        try Self.refuseLocked(keybag)
        try awaitUnnamedFiles(keybag, before: generation)
        let run = RotationRun(
            .look, keybag: keybag, threads: roots.jobs.threads, isJSON: json, total: RewrapPass.total(paths))
        run.visit(paths)
        try refuseLoss(run, run, keybag)
        if !allowLoss {
            // What is moved while it is looked for can be passed by: to where the search has been.
            let again = RotationRun(
                .look, keybag: keybag, threads: roots.jobs.threads, isJSON: false, total: RewrapPass.total(paths))
            again.isRepeated = true
            again.visit(paths)
            try refuseLoss(again, run, keybag)
        }
        let secretsAreRewrapped = try SecretsProgram(keybag: keybag).areCurrent
        guard secretsAreRewrapped || allowLoss else {
            throw Failure(
                .refused, "secrets are still under retired class keys, or do not open; nothing was forgotten",
                hint: "first: \(pass(keybag).resuming), which names them if they do not open; "
                    + "or, to lose them: --allow-loss")
        }
        if !yes { try confirm(retired, keybag) }
        let secret = try PasscodeReader.read(from: passcode, for: keybag)
        try keybag.open(passcode: secret).forgetRetiredKeys(
            before: generation, secretsAreRewrapped: true)
        if (try? keybag.state()) != .unlocked {
            // Its keys expired meanwhile, or what is left of them could not be put into the ring.
            StandardError.line(.warning, "the keybag is locked now")
            StandardError.line(.hint, "unlock it: protectfs unlock\(KeybagOption.words(for: keybag.directory))")
        }
        try run.finishDocument(generation: keybag.activeGeneration, retired: keybag.retiredGenerations)
    }

    /// Files that have no name yet are not found by the search.
    private func awaitUnnamedFiles(_ keybag: Keybag, before generation: UInt32) throws {
        if allowLoss { return }
        do throws(DataProtectionError) { try keybag.awaitUnnamedFiles(before: generation) } catch .busy {
            throw Failure(
                .notNow, "a program has not finished writing a file under retired class keys; nothing was forgotten",
                hint: "try again; resume or end programs that are stopped")
        }
    }

    /// - Parameter first: the search that prints JSON.
    private func refuseLoss(_ run: RotationRun, _ first: RotationRun, _ keybag: Keybag) throws {
        let isIncomplete = run.unknownCount > 0 || run.outcome.status != .done
        guard run.remainingCount > 0 || isIncomplete, !allowLoss else { return }
        try first.finishDocument(generation: keybag.activeGeneration, retired: keybag.retiredGenerations)
        let what =
            run.remainingCount > 0
            ? "\(spoken(run.remainingCount, "file")) would be lost: still under retired class keys"
            : "not every file could be checked, so some may be lost"
        throw Failure(
            .refused, "\(what); nothing was forgotten",
            hint: "first: \(pass(keybag).resuming); or, to lose them: --allow-loss")
    }

    private func confirm(_ retired: [UInt32], _ keybag: Keybag) throws(Failure) {
        let words = retired.map(String.init).joined(separator: ", ")
        let question = """
            Class keys of generation \(words) in \(quoted(keybag.directory)) will be forgotten.
            Files that still need them can never be read again: on disks that are not
            mounted, in backups, and wherever this command did not search. The same is
            true of secrets that were not rewrapped.
            To go on, type forget:\u{20}
            """
        guard let answer = try Terminal.askWord(question) else {
            throw Failure(
                .refused, "deleting keys cannot be undone, and there is no terminal to confirm it on",
                hint: "to delete without asking: --yes")
        }
        guard answer == "forget" else { throw Failure(.interrupted, "nothing was forgotten") }
    }
}
