/// What is known of a secret: `--service`, `--account`, `--host` …
struct AttributeOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The service of a generic password.", valueName: "name"))
    var service: String?
    @Option(help: ArgumentHelp("The account that the password is for.", valueName: "name"))
    var account: String?
    @Option(help: ArgumentHelp("The host of an internet password.", valueName: "name"))
    var host: String?
    @Option(
        name: .customLong("protocol"),
        help: ArgumentHelp("The protocol of an internet password (https, imap, ssh …).", valueName: "name"))
    var scheme: String?
    @Option(help: ArgumentHelp("The port, if it is not the protocol's default.", valueName: "number"))
    var port: Int?
    @Option(help: ArgumentHelp("The path on the server.", valueName: "path"))
    var path: String?
    @Option(help: ArgumentHelp("The realm, as the server names it.", valueName: "name"))
    var realm: String?
    @Option(help: ArgumentHelp("The name of an identity.", valueName: "name"))
    var identity: String?

    /// Whether anything was given.
    var isEmpty: Bool {
        port == nil && [service, account, host, scheme, path, realm, identity].allSatisfy { $0 == nil }
    }

    func validate() throws {
        for case let name? in [service, account, host, scheme, path, realm, identity] { try Self.requireUTF8(name) }
        if let port, !(0...65_535 ~= port) { throw ValidationError("--port: 0 to 65535") }
        if identity != nil, [service, account, host, scheme, path, realm].contains(where: { $0 != nil }) || port != nil
        {
            throw ValidationError("an identity has a name and nothing else: --identity alone")
        }
        if service != nil, [host, scheme, path, realm].contains(where: { $0 != nil }) || port != nil {
            throw ValidationError("a service has no host: --service (and --account), or --host")
        }
    }
}

extension AttributeOptions {
    /// Swift puts U+FFFD in the place of bytes that are not UTF-8, so two names would be one secret; of two that look alike it sees placeholders
    /// with a NUL.
    static func requireUTF8(_ name: String) throws {
        if name.unicodeScalars.contains(where: { $0 == "\u{FFFD}" || $0 == "\0" }) {
            throw ValidationError("the names of secrets are UTF-8")
        }
    }
}

/// The attributes of exactly one secret.
struct NameOptions: ParsableArguments {
    @OptionGroup var attributes: AttributeOptions

    func validate() throws { try attributes.checkThatTheyName() }
}

extension AttributeOptions {
    /// Whether they name exactly one secret.
    func checkThatTheyName() throws {
        let isNamed = identity != nil || host != nil || service != nil
        guard isNamed || (account != nil && scheme == nil) else {
            throw ValidationError("name the secret: --service and --account, --host, or --identity")
        }
        if host == nil, scheme != nil || port != nil || path != nil {
            throw ValidationError("an internet password needs --host")
        }
    }
}

/// `--app`, `--group`.
struct GroupOptions: ParsableArguments {
    @Option(
        name: .customLong("app"),
        help: ArgumentHelp("The application whose private group is used without --group.", valueName: "id"))
    var appID = "protectfs"
    @Option(
        help: ArgumentHelp("A group shared by programs: <app-id>.<reverse-dns>.<name>.", valueName: "name"))
    var group: String?
}

/// In which lock states a secret can be read.
enum AccessibilityArgument: String, ExpressibleByArgument, CaseIterable {
    case whenUnlocked = "when-unlocked"
    case whenUnlockedThisDeviceOnly = "when-unlocked-this-device-only"
    case afterFirstUnlock = "after-first-unlock"
    case afterFirstUnlockThisDeviceOnly = "after-first-unlock-this-device-only"

    static var allValueDescriptions: [String: String] {
        [
            whenUnlocked.rawValue: "only while unlocked",
            whenUnlockedThisDeviceOnly.rawValue: "only while unlocked, and in no backup",
            afterFirstUnlock.rawValue: "after the first unlock since the machine started",
            afterFirstUnlockThisDeviceOnly.rawValue: "after the first unlock, and in no backup",
        ]
    }
}

/// Where a value comes from.
struct ValueOptions: ParsableArguments {
    @Option(
        name: .customLong("value-fd"), help: SecretDescriptor.whole("the value"), transform: SecretDescriptor.open)
    var descriptor: Int32?
    @Flag(help: "Keep a newline at the end of the value, which is removed otherwise.")
    var raw = false
    @Option(
        name: .customLong("passphrase-fd"),
        help: SecretDescriptor.line("the passphrase of an identity's PKCS #12 file"), transform: SecretDescriptor.open)
    var passphraseDescriptor: Int32?
}
