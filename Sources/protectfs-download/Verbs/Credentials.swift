extension DownloadCredentialsAdd {
    func perform() async throws {
        let method = method.flatMap { AuthenticationMethod(rawValue: $0.rawValue) }
        let space = try ProtectionSpace(argument: server, realm: realm, method: method)
        for content in try password.contents() {
            try await keybag.downloads().addCredential(DownloadCredential(content, for: space))
        }
    }
}

extension DownloadCredentialsImportIdentity {
    func perform() async throws {
        let space = try ProtectionSpace(argument: server)
        let content = try passcode.identity(in: file.path)
        try await keybag.downloads().addCredential(DownloadCredential(content, for: space))
    }
}

extension DownloadCredentialsList {
    func perform() async throws {
        let downloads = try keybag.downloads()
        let credentials = try await downloads.credentials()
        if json {
            try JSON.array(credentials.map(\.members)).print()
        } else {
            var lines = OutputLines()
            for credential in credentials {
                let name = credential.name.map { [spoken(name: $0)] } ?? []
                let words = ["\(credential.space)", credential.kind.rawValue] + name
                try lines.add(Array(words.joined(separator: "  ").utf8))
            }
            try lines.finish()
        }
        let damaged = try await downloads.damagedCredentials()
        guard damaged > 0 else { return }
        throw Failure(
            .damaged, "\(DataProtection.spoken(damaged, "credential")) damaged or altered",
            hint: "delete what makes no sense: protectfs secret delete --damaged")
    }
}

extension DownloadCredentialsRemove {
    func perform() async throws {
        let space = try ProtectionSpace(argument: server, realm: realm)
        let removed = try await keybag.downloads().removeCredentials(of: space, name: user)
        guard removed.isEmpty else { return }
        throw Failure(
            .notFound, "there are no such credentials for \(quoted(server))",
            hint: "see all: protectfs download credentials list")
    }
}

/// A user's name or a certificate's subject, fit for a terminal.
private func spoken(name: String) -> String { hasUnprintable(Array(name.utf8)) ? quoted(name) : name }

extension ListedCredential {
    fileprivate var members: JSON {
        func text(_ value: String?) -> JSON { value.map { .string($0) } ?? .null }
        return .object([
            ("protocol", .string(space.kind.rawValue)), ("host", .string(space.host)), ("port", .optional(space.port)),
            ("realm", text(space.realm)), ("method", text(space.method?.rawValue)), ("kind", .string(kind.rawValue)),
            ("name", text(name)),
        ])
    }
}
