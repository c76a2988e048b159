extension DownloadKeyAdd {
    /// In bytes.
    private static let longest = 4096

    func perform() async throws { try await keybag.downloads().addIntegrityKey(IntegrityKey(id: id, try secret())) }

    private func secret() throws(Failure) -> SecretBytes {
        guard let keyFile else { return try SecretFile.read(descriptor ?? -1, upTo: Self.longest) }
        StandardError.line(
            .warning,
            "'--key-file' is an old option, which the next release removes; use: \(SecretDescriptor.example("--key-fd"))"
        )
        return try SecretFile.read(keyFile.path, upTo: Self.longest)
    }
}

extension DownloadKeyList {
    func perform() async throws {
        let keys = try await keybag.downloads().integrityKeyIDs()
        if json {
            let members = keys.map { JSON.object([("id", .string($0.id)), ("isRetired", .bool($0.isRetired))]) }
            return try JSON.array(members).print()
        }
        var lines = OutputLines()
        for key in keys {
            let id = hasUnprintable(Array(key.id.utf8)) ? quoted(key.id) : key.id
            try lines.add(Array("\(key.isRetired ? "retired " : "accepted")  \(id)".utf8))
        }
        try lines.finish()
    }
}

extension DownloadKeyRetire {
    func perform() async throws { try await keybag.downloads().retireIntegrityKey(id) }
}
