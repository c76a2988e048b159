import DataProtection

/// The owner password of the TPM, typed at the terminal. No option takes it: it is wanted only where somebody has set one, and once for each change.
enum OwnerPasswordPrompt {
    /// Whatever verb changes the TPM asks.
    static func offer() {
        Keybag.askForOwnerPassword(ifPossible: { Terminal.isThere }, answer: ask)
    }

    private static func ask(isAgain: Bool) -> SecretBytes? {
        let question = (isAgain ? "This is not it. " : "") + "Owner password of the TPM: "
        guard let answer = try? HiddenInput.ask(question, upTo: 64), answer.count > 0 else { return nil }
        return answer
    }
}
