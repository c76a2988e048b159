import ArgumentParser
import DataProtection

/// Destroys the keybag.
struct Erase: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "erase", abstract: "Destroy the keybag, so that its files can never be read again.",
        discussion: """
            Evicts the keys from the kernel keyring, lists programs and mounts that may still hold plaintext, \
            overwrites the files of the keybag and removes them. Protected files stay where they are. Nobody can read \
            them any more, unless a copy of the keybag or a recovery export exists. Flash storage, snapshots and \
            backups may keep what was overwritten. The secret of a keybag that is bound to a TPM is destroyed there. \
            The device key stays. Asks at the terminal.
            """)

    @Flag(help: "Do not ask for confirmation.")
    var yes = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let erasure = try KeybagErasure(at: keybag.location)
        if !yes { try confirm(erasure) }
        if let keybag = try? keybag.open() { try OwnerPasswordPrompt.ask(ifBound: keybag, isTyped: true) }
        let remains = lockFirst()
        let left = try erasure.perform(warn: ProtectionWarning.print)
        remains.say()
        if erasure.uuid == nil {
            StandardError.line(.warning, "the keybag was too damaged to find its keys in the keyring")
            StandardError.line(.hint, "evict the keys of every keybag: protectfs lock --all")
        }
        for path in left { StandardError.line(.warning, "\(quoted(path)) is not a file of the keybag and was left") }
    }

    /// Programs are found by the keybag, and give up their keys when it locks. What cannot be locked, the erasure refuses or says itself.
    private func lockFirst() -> LockRemains {
        guard let keybag = try? keybag.open(), (try? keybag.lock(waiting: 0)) != nil else { return LockRemains([], []) }
        return LockRemains([keybag], [])
    }

    private func confirm(_ erasure: KeybagErasure) throws(Failure) {
        let name = erasure.uuid.map { "Keybag \($0)" } ?? "A keybag whose UUID cannot be read"
        let question = """
            \(name) in \(quoted(erasure.directory)) will be destroyed.
            Every file protected under it can never be read again, here and in
            backups, unless a copy of the keybag or a recovery export exists.
            To go on, type erase:\u{20}
            """
        guard let answer = try Terminal.askWord(question) else {
            throw Failure(
                .refused, "erasing cannot be undone, and there is no terminal to confirm it on",
                hint: "to erase without asking: --yes")
        }
        guard answer == "erase" else { throw Failure(.interrupted, "nothing was erased") }
    }
}
