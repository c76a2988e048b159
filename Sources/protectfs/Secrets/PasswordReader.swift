import ArgumentParser
import DataProtection

/// `--password-fd N`. The password of a service's user is never an argument and never in the environment.
struct PasswordSource: ParsableArguments {
    @Option(
        name: .customLong("password-fd"),
        help: ArgumentHelp(
            "Read the password from this file descriptor instead of asking, up to a newline, NUL or end of file.",
            valueName: "n"))
    private var descriptor: Int32?

    func validate() throws {
        if let descriptor, descriptor < 0 { throw ValidationError("--password-fd needs a file descriptor") }
    }

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
