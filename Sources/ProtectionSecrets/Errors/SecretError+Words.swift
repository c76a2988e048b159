import DataProtection
public import FoundationEssentials

extension SecretName {
    /// As people read it: `'imap' 'kim'`, `https://kim@example.org:8443/path (realm)`.
    package var words: String {
        switch self {
        case .genericPassword(let service, let account):
            [service, account].filter { !$0.isEmpty }.map { quoted($0) }.joined(separator: " ")
        case .internetPassword(let server, let account):
            quoted(
                "\(server.protocol)://\(account.isEmpty ? "" : account + "@")\(server.host)"
                    + (server.port == 0 ? "" : ":\(server.port)") + server.slashedPath
                    + (server.realm.isEmpty ? "" : " (\(server.realm))"))
        case .identity(let name): "identity " + quoted(name)
        }
    }
}

extension SecretServer {
    /// `https://example.org:8443`
    package var origin: String { "\(self.protocol)://\(host)" + (port == 0 ? "" : ":\(port)") }

    /// The path with a slash before it, or nothing.
    fileprivate var slashedPath: String { path.isEmpty || path.hasPrefix("/") ? path : "/" + path }
}

extension SecretError: LocalizedError {
    /// What happened and where: lower case, no full stop, names and paths quoted.
    public var errorDescription: String? { message }

    /// What to do next, as far as the keybag or its files are concerned.
    public var recoverySuggestion: String? {
        if case .protection(let error) = self { error.recoverySuggestion } else { nil }
    }

    /// As ``errorDescription``.
    package var message: String {
        switch self {
        case .invalid(let reason): printable(reason)
        case .valueTooLong(let bytes):
            "the value has \(bytes) bytes; at most \(SecretStore.maximumValueLength) can be stored"
        case .exists(let secret, let group): "the secret \(secret.words) exists already in group \(group)"
        case .notFound(let secret, let group): "there is no secret \(secret.words) in group \(group)"
        case .locked(let secret, let accessibility, let state, let since):
            "cannot use the \(accessibility.name) secret \(secret.words): "
                + "class \(accessibility.protectionClass.shortName), " + state.spoken(since: since)
        case .otherDevice(let secret):
            "the secret \(secret.words) is for another device only, or was altered (these cannot be told apart)"
        case .otherKey(let secret, let generation):
            "the secret \(secret.words) does not open under the class key of generation \(generation) of its keybag: "
                + "another device made a key with that number, or the secret was altered"
        case .damaged(let secret, let path, let reason):
            "the secret \(secret.words) in \(quoted(path)) is damaged or altered: \(reason)"
        case .keyLost(let secret, let generation):
            "the secret \(secret.words) needs a class key of generation \(generation), which the keybag does not have: "
                + "it was forgotten, or another device made it"
        case .needsUnlock(let keybag): "keybag \(quoted(keybag)) has no class keys for secrets yet"
        case .storeDamaged(let path, let reason):
            "the store of secrets \(quoted(path)) is damaged or altered: \(reason)"
        case .storeNewer(let path): "the store of secrets \(quoted(path)) was made by a newer version"
        case .store(let path, let code, let reason):
            "the store of secrets \(quoted(path)) cannot be used: \(reason) (\(code))"
        case .protection(let error): error.message
        case .cryptography(let error): "libcrypto failed on \(error); please report this"
        @unknown default: "\(self)"
        }
    }
}
