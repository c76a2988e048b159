import DataProtection

/// The owner password of the TPM, typed at the terminal before a verb changes anything. No option takes it: few TPMs have one.
enum OwnerPasswordPrompt {
    /// Asks, three times at most, if the verb is going to need it. Without the right answer the verb itself says why it cannot go on.
    ///
    /// - Parameters:
    ///   - keybag: nil: one that is going to be made.
    ///   - isTyped: whether somebody types what else the verb asks for.
    static func ask(for keybag: Keybag?, isTyped: Bool) throws(Failure) {
        guard isTyped, Terminal.isThere else { return }
        let owner = Keybag.HardwareOwner(of: keybag)
        var question = "Owner password of the TPM: "
        for _ in 0..<3 where owner.isAsked {
            guard let answer = try HiddenInput.ask(question, upTo: 64), answer.count > 0,
                let isRight = owner.accepts(answer), !isRight
            else { return }
            question = "Wrong password. Owner password of the TPM: "
        }
    }

    /// The same for a change of a keybag, if it has secrets in the TPM.
    static func ask(ifBound keybag: Keybag, isTyped: Bool) throws(Failure) {
        if keybag.hasHardwareSecrets { try ask(for: keybag, isTyped: isTyped) }
    }
}
