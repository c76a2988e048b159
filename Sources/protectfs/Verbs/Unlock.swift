import ArgumentParser
import DataProtection

/// Loads the class keys into the kernel keyring.
struct Unlock: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unlock", abstract: "Load the class keys, so that protected files can be opened.",
        discussion: """
            The keys work in every session of this user until: protectfs lock. At a terminal you can retry a wrong \
            passcode twice.

            Returns as soon as the keys can be used. Another process then does the queued work in the background: \
            protectfs queue
            """)

    @Option(
        name: .customLong("for"),
        help: ArgumentHelp(
            "Lock automatically after this time: 90 or 90s, 10m, 2h, 1d.", valueName: "time"))
    var limit: DurationArgument?
    @Flag(help: "Finish that work before returning.")
    var wait = false
    @Flag(help: "Load only the class key of first-unlock files, for an unattended machine.")
    var onlyFirstUnlock = false
    @Flag(help: "Unlock in a user namespace, such as a container. A lock outside it cannot evict these keys.")
    var inNamespace = false
    @OptionGroup var keybag: KeybagOption
    @OptionGroup var passcode: PasscodeOption
    @OptionGroup var secret: FirstUnlockSecretOption

    func validate() throws {
        if secret.descriptor != nil, !onlyFirstUnlock {
            throw ValidationError("--secret-fd needs --only-first-unlock: such a secret opens no other class")
        }
        if secret.descriptor != nil, passcode.descriptor != nil || passcode.askpass != nil {
            throw ValidationError("--secret-fd cannot be used with --passcode-fd or --askpass")
        }
        if onlyFirstUnlock, limit != nil {
            throw ValidationError(
                "--only-first-unlock cannot be used with --for: it loads no keys that could be evicted")
        }
    }

    func run() throws {
        EditDirectory.removeLeftovers()
        let keybag = try keybag.open()
        try loadKeys(of: keybag)
        if limit == nil, !onlyFirstUnlock, passcode.descriptor == nil { AgentProgram.warnIfMissing(for: keybag) }
        guard keybag.queuedWorkCount > 0 else { return }
        if wait { try QueueRun.perform(keybag, keepingLost: false) } else { BackgroundQueue.start(for: keybag) }
    }

    private static func warnOfOlderCopy(_ keybag: Keybag) {
        StandardError.line(
            .warning,
            "\(quoted(keybag.directory)) is an older copy of the keybag: the keyring had newer class keys, "
                + "which it has lost now")
        StandardError.line(.hint, KeybagFailure.olderKeybagHint)
    }

    /// Asks for the passcode: three times at most at a terminal, as long as no delay has begun.
    private func loadKeys(of keybag: Keybag) throws {
        if let secret = try secret.read() { return try keybag.unlockOnlyFirstUnlock(secret: secret) }
        for triesLeft in (0..<(passcode.asksAtTerminal ? 3 : 1)).reversed() {
            let secret = try PasscodeReader.read(from: passcode, for: keybag)
            do throws(DataProtectionError) {
                if onlyFirstUnlock { return try keybag.unlockOnlyFirstUnlock(passcode: secret) }
                let isOlder = keybag.isOlderThanRing
                try keybag.unlock(passcode: secret, forSeconds: limit?.seconds, allowsNamespace: inNamespace)
                if isOlder { Self.warnOfOlderCopy(keybag) }
                return
            } catch {
                guard case .because(KeybagFailure.wrongPasscode(_, _, retryAfter: .zero)) = error, triesLeft > 0 else {
                    throw error
                }
                StandardError.line(.warning, error.message)
            }
        }
    }
}
