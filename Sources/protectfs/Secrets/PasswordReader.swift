import ArgumentParser
import DataProtection

/// `--password-fd N`, and the terminal without it: the password of a service's user.
struct PasswordSource: ParsableArguments {
    @Option(
        name: .customLong("password-fd"),
        help: SecretDescriptor.line("the password"), transform: SecretDescriptor.open)
    private var descriptor: Int32?

    /// One that is known.
    func read() throws(Failure) -> SecretBytes {
        if let descriptor { return try line(of: descriptor) }
        return try ask("Password: ")
    }

    /// One that is going to be hashed: asked for twice.
    func readNew() throws(Failure) -> SecretBytes {
        if let descriptor { return try line(of: descriptor) }
        return try TypedTwice.read("password", prompt: "New password: ", ask)
    }

    /// Bytes, at most: as `PasswordHash` takes them.
    private static let maximum = 1024

    private func line(of descriptor: Int32) throws(Failure) -> SecretBytes {
        try usable(SecretLine.read(from: descriptor, upTo: Self.maximum))
    }

    private func ask(_ question: String) throws(Failure) -> SecretBytes {
        try usable(
            HiddenInput.ask(question, for: "password", upTo: Self.maximum, insteadOf: "--password-fd"))
    }

    /// Said here, before it is asked for again.
    private func usable(_ password: consuming SecretBytes) throws(Failure) -> SecretBytes {
        guard password.count <= Self.maximum else {
            throw Failure(.usage, "a password of more than 1,024 bytes cannot be used")
        }
        guard password.count > 0 else { throw Failure(.usage, "an empty password cannot be used") }
        return password
    }
}
