import ArgumentParser
import DataProtection
import Glibc
import RNCryptorFormat

/// `--password-fd N`, `--key-fd N`, and the terminal without either: what seals and opens messages of others.
///
/// There is no `--askpass`: windows ask for the passcode, and users should not learn to type other passwords there.
struct MessageSecretOption: ParsableArguments {
    @Option(
        name: .customLong("password-fd"),
        help: SecretDescriptor.line("the password"), transform: SecretDescriptor.open)
    var passwordDescriptor: Int32?
    @Option(
        name: .customLong("key-fd"),
        help: SecretDescriptor.whole("two keys, 32 bytes to encrypt and 32 for the HMAC,"),
        transform: SecretDescriptor.open)
    var keyDescriptor: Int32?

    /// Bytes of a password from a descriptor, at most.
    private static let longest = 65_536

    func validate() throws {
        if passwordDescriptor != nil, keyDescriptor != nil {
            throw ValidationError("it is a password or keys: --password-fd or --key-fd")
        }
    }

    /// Whether the secret comes from this descriptor.
    func reads(_ descriptor: Int32) -> Bool { passwordDescriptor == descriptor || keyDescriptor == descriptor }

    /// Whether keys are given.
    var isOfKeys: Bool { keyDescriptor != nil }

    /// For a new message; a password is asked for twice.
    func readNew() throws(Failure) -> RNCryptorSecret {
        if let keyDescriptor { return try keys(of: keyDescriptor) }
        if let passwordDescriptor { return try line(of: passwordDescriptor) }
        return try usable(TypedTwice.read("password", prompt: "New password: ", ask))
    }

    /// For a message that is there.
    ///
    /// - Parameter name: the message's, as errors say it.
    func read(for kind: RNCryptorHeader.Kind, of name: String) throws(Failure) -> RNCryptorSecret {
        switch kind {
        case .keys:
            guard let keyDescriptor else { throw RNCryptorError.needsKeys.failure(name) }
            return try keys(of: keyDescriptor)
        case .password:
            guard keyDescriptor == nil else { throw RNCryptorError.needsPassword.failure(name) }
            if let passwordDescriptor { return try line(of: passwordDescriptor) }
            return try usable(ask("Password of \(name): "))
        }
    }

    private func line(of descriptor: Int32) throws(Failure) -> RNCryptorSecret {
        try usable(SecretLine.read(from: descriptor, upTo: Self.longest))
    }

    private func ask(_ question: String) throws(Failure) -> SecretBytes {
        try HiddenInput.ask(question, for: "password", upTo: Self.longest, insteadOf: "--password-fd")
    }

    private func usable(_ password: consuming SecretBytes) throws(Failure) -> RNCryptorSecret {
        guard password.count <= Self.longest else {
            throw Failure(.usage, "the password is longer than the \(Self.longest) bytes that are read")
        }
        do throws(RNCryptorError) { return try RNCryptorSecret(password: password) } catch {
            throw error.failure("")
        }
    }

    /// Keys are bytes of any kind, so nothing but the end of the descriptor ends them.
    private func keys(of descriptor: Int32) throws(Failure) -> RNCryptorSecret {
        let keys = try SecretFile.read(descriptor, upTo: RNCryptorSecret.keysLength)
        do throws(RNCryptorError) { return try RNCryptorSecret(keys: keys) } catch { throw error.failure("") }
    }
}
