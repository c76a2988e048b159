import FoundationEssentials

/// What the command line was given, read once, for the server of each URL.
struct GivenCredentials {
    fileprivate(set) var contents: [DownloadCredential.Content] = []

    func callAsFunction(for url: URL) throws -> [DownloadCredential] {
        let isSecure = url.scheme?.lowercased() != "http"
        guard let host = url.host() else { return [] }
        let space = ProtectionSpace(isSecure ? .https : .http, host: host, port: url.port ?? (isSecure ? 443 : 80))
        return try contents.map { try DownloadCredential($0, for: space) }
    }
}

extension CredentialOptions {
    /// Reads, or asks for, what is secret.
    func given() throws -> GivenCredentials {
        var given = GivenCredentials(contents: try password.contents())
        if let identity { given.contents.append(try passcode.identity(in: identity.path)) }
        return given
    }
}

extension PasswordOptions {
    /// Reads, or asks for, what is secret.
    func contents() throws -> [DownloadCredential.Content] {
        var contents: [DownloadCredential.Content] = []
        if let user { contents.append(try Secret.password(of: user, passwordDescriptor)) }
        if let bearerDescriptor { contents.append(.token(try Secret.line(of: bearerDescriptor))) }
        return contents
    }
}

extension IdentityPasscodeOption {
    /// A client certificate, with the passcode that opens it: of the descriptor, none, or the one that is typed.
    func identity(in path: FilePath) throws -> DownloadCredential.Content {
        let bytes = try SmallFile.read(path)
        if let descriptor { return .identity(pkcs12: bytes, passphrase: try Secret.line(of: descriptor)) }
        do throws(ClientIdentityError) {
            _ = try ClientIdentity(pkcs12: bytes, passphrase: nil)
            return .identity(pkcs12: bytes, passphrase: nil)
        } catch {
            guard error == .wrongPassphrase else { throw DownloadError.unusableIdentity(error) }
        }
        let typed = try Secret.ask("Passcode of \(quoted(path)): ", option: "--identity-passcode-fd")
        return .identity(pkcs12: bytes, passphrase: typed)
    }
}

/// Reads what is secret, straight into memory for that.
enum Secret {
    /// Bytes of a password, token or passcode, at most.
    private static let maximum = 16_384

    static func password(of user: String, _ descriptor: Int32?) throws -> DownloadCredential.Content {
        if let descriptor { return .password(user: user, try line(of: descriptor)) }
        return .password(user: user, try ask("Password of \(quoted(user)): ", option: "--password-fd"))
    }

    static func line(of descriptor: Int32) throws(Failure) -> CredentialSecret {
        try usable(SecretLine.read(from: descriptor, upTo: maximum))
    }

    static func ask(_ question: String, option: String) throws(Failure) -> CredentialSecret {
        try usable(HiddenInput.ask(question, for: "secret", upTo: maximum, insteadOf: option))
    }

    private static func usable(_ secret: consuming SecretBytes) throws(Failure) -> CredentialSecret {
        guard 1...maximum ~= secret.count else {
            throw Failure(
                .usage, "what is secret has 1 to \(maximum) bytes; this has \(secret.count == 0 ? "none" : "more")")
        }
        return CredentialSecret(secret)
    }
}
