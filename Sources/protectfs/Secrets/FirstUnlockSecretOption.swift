import ArgumentParser
import DataProtection

/// `--secret-fd N`: a first-unlock secret that an engine has opened.
struct FirstUnlockSecretOption: ParsableArguments {
    @Option(
        name: .customLong("secret-fd"),
        help: SecretDescriptor.line("a first-unlock secret, instead of the passcode,"),
        transform: SecretDescriptor.open)
    var descriptor: Int32?

    /// The secret that the descriptor gives; nil if none was named.
    func read() throws(Failure) -> FirstUnlockSecret? {
        guard let descriptor else { return nil }
        let text = try SecretLine.readArriving(on: descriptor, upTo: FirstUnlockSecret.textLength)
        guard let secret = FirstUnlockSecret(reading: text) else {
            throw Failure(
                .usage,
                "descriptor \(descriptor) did not give a first-unlock secret: 64 hexadecimal digits",
                hint: "protectfs service-secret add NAME prints one")
        }
        return secret
    }
}
