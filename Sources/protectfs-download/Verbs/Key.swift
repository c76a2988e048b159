extension DownloadKeyAdd: PerformedVerb {
    func perform() async throws {
        let secret = try SecretFile.read(descriptor, or: keyFile?.path)
        try await keybag.downloads().addIntegrityKey(IntegrityKey(id: id, secret))
    }
}

extension DownloadKeyList: PerformedVerb {
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

extension DownloadKeyRetire: PerformedVerb {
    func perform() async throws { try await keybag.downloads().retireIntegrityKey(id) }
}
