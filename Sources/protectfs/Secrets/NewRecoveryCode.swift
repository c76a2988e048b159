import DataProtection

/// A new recovery code: shown on standard output before it counts, and asked back from a person.
///
/// The code goes to standard output and the questions go to the terminal, so that a script can take the code.
enum NewRecoveryCode {
    /// Whether somebody sits there who can be asked: not where the secrets came from descriptors, or the code goes elsewhere.
    ///
    /// - Parameter isTyped: whether passcode or old code were typed.
    static func canAsk(isTyped: Bool) -> Bool { isTyped && StandardOutput.isTerminal && Terminal.isThere }

    /// A code that nobody has seen.
    static func make() throws(DataProtectionError) -> RecoveryCode {
        do throws(KeyError) { return try RecoveryCode.random() } catch { throw .cryptography(error) }
    }

    /// Shows the code. When somebody can be asked, returns only if one of its groups was typed.
    ///
    /// - Throws: status 64, 74: the code must not be stored then.
    static func show(_ code: borrowing RecoveryCode, asking isAsking: Bool) throws(Failure) {
        if isAsking {
            Terminal.say("Recovery code, shown only now. Write it down and keep it away from this machine:\n\n")
        }
        try code.grouped().withUnsafeBytes { text throws(Failure) in try StandardOutput.write(text) }
        try StandardOutput.write("\n")
        if isAsking { try confirm(code) }
    }

    private static func confirm(_ code: borrowing RecoveryCode) throws(Failure) {
        let group = Int.random(in: 1...RecoveryCode.groupCount)
        for _ in 0..<3 {
            guard let typed = try Terminal.ask("\nTo go on, type group \(group) of it: ") else { break }
            if code.isGroup(group, typedAs: typed) { return }
            StandardError.line(.warning, "that is not group \(group)")
        }
        throw Failure(
            .usage, "the recovery code was not confirmed", hint: "nothing has changed, and the code shown is void")
    }

    /// The failure to store a code that was shown.
    static func failure(_ error: DataProtectionError, keepsOld: Bool) -> Failure {
        if case .because(KeybagFailure.keybagUnconfirmed) = error { return Failure(error) }
        let isVoid = "nothing has changed: the recovery code shown is void" + (keepsOld ? ", the old one is not" : "")
        return Failure(error.exitStatus, "\(error.message); \(isVoid)", hint: error.hint)
    }
}
