import ArgumentParser
import DataProtection

/// Secrets that open class C only, for machines that unlock themselves.
struct ServiceSecret: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "service-secret",
        abstract: "Let an unattended machine open its first-unlock files.",
        discussion: """
            A first-unlock secret opens first-unlock files, and stored secrets of class after-first-unlock, on this \
            machine only. A service gets it from a TPM or from a server of its network, and runs: protectfs unlock \
            --only-first-unlock --secret-fd N
            """,
        subcommands: [ServiceSecretAdd.self, ServiceSecretList.self, ServiceSecretRemove.self])
}

struct ServiceSecretAdd: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Make a secret and print it once.",
        discussion: """
            Asks for the passcode, in any lock state. The secret is 64 hexadecimal digits. The keybag does not keep it: \
            seal it at once. It is valid until it is removed or the class keys are rotated. A new passcode does not \
            affect it.
            """)

    @Argument(help: "The name that list will show, such as that of the service.")
    var name: String
    @OptionGroup var keybag: KeybagOption
    @OptionGroup var passcode: PasscodeOption

    func run() throws {
        let keybag = try keybag.open()
        // Before anybody types a passcode.
        if keybag.firstUnlockSecrets.has(name) { throw keybag.failure(.exists(name: name)) }
        let opened = try keybag.open(passcode: PasscodeReader.read(from: passcode, for: keybag))
        let secret: FirstUnlockSecret
        do throws(KeyError) { secret = try .random() } catch { throw DataProtectionError.cryptography(error) }
        // First: what nobody got must open nothing.
        try secret.text().withUnsafeBytes { text throws(Failure) in try StandardOutput.write(text) }
        try StandardOutput.write("\n")
        do throws(DataProtectionError) { try opened.add(secret, named: name) } catch {
            if case .because(KeybagFailure.keybagUnconfirmed) = error {
                throw Failure(
                    error.exitStatus, "\(error.message); the secret may or may not open the keybag",
                    hint: "after a restart, look: protectfs service-secret list")
            }
            throw Failure(
                error.exitStatus, "\(error.message); the secret that was printed opens nothing", hint: error.hint)
        }
    }
}

struct ServiceSecretList: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the secrets by name. The secrets themselves are not there.")

    @Flag(help: "Print the result as JSON.")
    var json = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let secrets = try keybag.open().firstUnlockSecrets
        if json {
            return try JSON.array(
                secrets.map { .object([("name", .string($0.name)), ("current", .bool($0.isCurrent))]) }
            ).print()
        }
        var lines = OutputLines()
        for secret in secrets {
            let doubt = secret.isCurrent ? "" : "  (does not open: the class keys were rotated)"
            try lines.add(Array("\(secret.name)\(doubt)".utf8))
        }
        try lines.finish()
    }
}

struct ServiceSecretRemove: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Remove a secret: it no longer opens the keybag.",
        discussion: """
            Asks for the passcode. Keys in the kernel keyring stay until the machine restarts. An earlier copy of the \
            keybag still opens with the secret. After protectfs rotate that copy no longer opens rotated files.
            """)

    @Argument(help: "The name that list shows.")
    var name: String
    @OptionGroup var keybag: KeybagOption
    @OptionGroup var passcode: PasscodeOption

    func run() throws {
        let keybag = try keybag.open()
        guard keybag.firstUnlockSecrets.has(name) else { throw keybag.failure(.absent(name: name)) }
        let secret = try PasscodeReader.read(from: passcode, for: keybag)
        try keybag.open(passcode: secret).removeFirstUnlockSecret(named: name)
    }
}

extension [FirstUnlockSecretEntry] {
    fileprivate func has(_ name: String) -> Bool { contains { $0.name == name } }
}
