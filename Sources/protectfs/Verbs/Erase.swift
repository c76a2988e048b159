import ArgumentParser
import DataProtection

/// Destroys the keybag.
struct Erase: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "erase", abstract: "Destroy the keybag, so that its files can never be read again.",
        discussion: """
            Evicts the keys from the kernel keyring, overwrites the files of the keybag and removes them. Protected \
            files stay where they are. Nobody can read them any more, unless a copy of the keybag or a recovery \
            export exists. Flash storage, snapshots and backups may keep what was overwritten. The device key stays. \
            Asks at the terminal.
            """)

    @Flag(help: "Do not ask for confirmation.")
    var yes = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let erasure = try KeybagErasure(at: keybag.location)
        if !yes { try confirm(erasure) }
        let left = try erasure.perform()
        if erasure.uuid == nil {
            StandardError.line(.warning, "the keybag was too damaged to say which keys in the keyring are its own")
            StandardError.line(.hint, "take away the keys of every keybag: protectfs lock --all")
        }
        for path in left { StandardError.line(.warning, "\(quoted(path)) is none of the keybag's files and was left") }
    }

    private func confirm(_ erasure: KeybagErasure) throws(Failure) {
        let name = erasure.uuid.map { "Keybag \($0)" } ?? "A keybag that is too damaged to say its name"
        let question = """
            \(name) in \(quoted(erasure.directory)) will be destroyed.
            Every file protected under it becomes unreadable for ever, here and in
            backups, unless a copy of the keybag or a recovery export exists.
            To go on, type erase:\u{20}
            """
        guard let answer = try Terminal.askWord(question) else {
            throw Failure(.refused, "erasing is for ever, and nobody can be asked here", hint: "if it is meant: --yes")
        }
        guard answer == "erase" else { throw Failure(.interrupted, "nothing was erased") }
    }
}
