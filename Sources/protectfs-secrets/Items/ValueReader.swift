import Glibc

extension ValueOptions {
    /// The value: of the descriptor, typed, or standard input where there is no terminal.
    ///
    /// - Throws: status 64 if it is longer than a value may be.
    func read(for secret: SecretName) throws -> SecretBytes {
        guard secret.kind != .identity else { return try identity().joined() }
        if descriptor == nil, isatty(0) == 1,
            let typed = try HiddenInput.ask("Secret: ", upTo: SecretStore.maximumValueLength)
        {
            return typed
        }
        let value = try SecretFile.read(descriptor ?? 0, upTo: SecretStore.maximumValueLength)
        return raw ? value : Self.withoutNewline(value)
    }

    private func identity() throws -> SecretIdentity {
        let file = try SecretFile.read(descriptor ?? 0, upTo: SecretStore.maximumValueLength)
        if let passphraseDescriptor {
            return try SecretIdentity(
                pkcs12: file,
                passphrase: SecretLine.read(from: passphraseDescriptor, upTo: SecretStore.maximumValueLength))
        }
        let typed = try HiddenInput.ask(
            "Passphrase of the identity (empty: none): ", upTo: SecretStore.maximumValueLength)
        guard let typed else { return try SecretIdentity(pkcs12: file, passphrase: SecretBytes(zeroed: 0)) }
        return try SecretIdentity(pkcs12: file, passphrase: typed)
    }

    private static func withoutNewline(_ value: consuming SecretBytes) -> SecretBytes {
        let count = value.count
        let ends = value.withUnsafeBytes { $0.last == UInt8(ascii: "\n") }
        return ends ? value.slice(0..<count - 1) : value
    }
}
