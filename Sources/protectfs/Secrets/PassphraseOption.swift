import ArgumentParser
import DataProtection
import Glibc

/// `--passphrase-fd N`, and the terminal without it: a backup's passphrase is no passcode.
struct PassphraseOption: ParsableArguments {
    @Option(
        name: .customLong("passphrase-fd"),
        help: SecretDescriptor.line("the backup's passphrase"), transform: SecretDescriptor.open)
    var descriptor: Int32?

    private static let prompt = "Passphrase of the backup: "
    /// Bytes below which a passphrase is called short.
    private static let shortest = 15

    /// The passphrase of a backup that is there.
    func read() throws(Failure) -> SecretBytes {
        if let descriptor { return try PasscodeReader.line(of: descriptor) }
        return try PasscodeReader.ask(Self.prompt, nil, option: "--passphrase-fd")
    }

    /// A new one; asked for twice where somebody is asked.
    func readNew() throws(Failure) -> SecretBytes {
        if descriptor == nil {
            StandardError.line(
                .note,
                "the passphrase alone opens the backup, without your passcode and this machine: choose a long one")
        }
        let secret = try PasscodeReader.readNew(
            from: descriptor, askpass: nil, option: "--passphrase-fd", prompt: "New passphrase of the backup: ")
        if secret.count < Self.shortest {
            StandardError.line(
                .warning, "the passphrase is short: anyone who has the backup can guess it on many machines at once"
            )
        }
        return secret
    }

    /// Printed for a person at a terminal.
    static func noteWait() {
        if isatty(2) == 1 {
            StandardError.line(.note, "the key is derived from the passphrase, which takes some seconds")
        }
    }
}
