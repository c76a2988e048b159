import Glibc

extension SecretAdd {
    func perform() throws {
        let store = try group.store(keybag)
        let secret = name.secret
        // Before anybody types a value.
        if try store.record(of: secret, in: group.accessGroup) != nil {
            throw SecretError.exists(secret, try group.accessGroup ?? store.privateGroup)
        }
        let value = try value.read(for: secret)
        try store.add(
            secret, value: value, accessibility: accessibility?.accessibility ?? .whenUnlocked, in: group.accessGroup)
    }
}

extension SecretSet {
    func perform() throws {
        let store = try group.store(keybag)
        let secret = name.secret
        let value = try value.read(for: secret)
        try store.set(secret, value: value, accessibility: accessibility?.accessibility, in: group.accessGroup)
    }
}

extension SecretUpdate {
    func perform() throws {
        let store = try group.store(keybag)
        let secret = name.secret
        let accessGroup = try group.accessGroup
        guard try store.record(of: secret, in: accessGroup) != nil else {
            throw SecretError.notFound(secret, accessGroup ?? store.privateGroup)
        }
        if keepValue, let accessibility {
            try store.setAccessibility(accessibility.accessibility, of: secret, in: accessGroup)
            return
        }
        let value = try value.read(for: secret)
        try store.update(secret, value: value, accessibility: accessibility?.accessibility, in: accessGroup)
    }
}

extension SecretGet {
    func perform() throws {
        let store = try group.store(keybag)
        let accessGroup = try group.accessGroup
        let secret = try named(in: store)
        guard case .identity(let identityName) = secret else {
            try StandardOutput.write(store.value(of: secret, in: accessGroup), newline: !raw)
            return
        }
        let identity = try store.identity(identityName, in: accessGroup)
        if passphrase {
            try StandardOutput.write(identity.passphrase, newline: !raw)
        } else {
            try StandardOutput.write(identity.pkcs12, newline: false)
        }
    }

    /// The secret that the options name, or the only one in the group that has the single name.
    private func named(in store: SecretStore) throws -> SecretName {
        guard let name else { return attributes.named }
        let found = try store.find(SecretQuery(), in: group.scope(allGroups: false))
        let matches = found.records.map(\.name).filter { $0.isCalled(name) }
        guard let match = matches.first else {
            let group = try group.accessGroup ?? store.privateGroup
            throw Failure(
                .notFound, "no secret in group \(group) is called \(quoted(name))",
                hint: "see what there is: protectfs secret list --all-groups")
        }
        guard matches.count == 1 else {
            throw Failure(
                .usage,
                "\(spoken(matches.count, "secret")) are called \(quoted(name)): "
                    + matches.prefix(5).map(\.words).joined(separator: ", ") + (matches.count > 5 ? " …" : ""),
                hint: "say which one: --service and --account, --host, or --identity")
        }
        return match
    }
}

extension SecretName {
    /// Whether this is its service, account, host or identity.
    fileprivate func isCalled(_ name: String) -> Bool {
        switch self {
        case .genericPassword(let service, let account): service == name || account == name
        case .internetPassword(let server, let account): server.host == name.lowercased() || account == name
        case .identity(let identity): identity == name
        }
    }
}

extension SecretDelete {
    func perform() throws {
        if damaged {
            try group.storeToLookAfter(keybag).deleteDamaged()
        } else {
            try group.store(keybag).delete(attributes.named, in: group.accessGroup)
        }
    }
}

extension StandardOutput {
    /// Writes a secret, from the memory that it is in.
    static func write(_ secret: borrowing SecretBytes, newline: Bool) throws(Failure) {
        try secret.withUnsafeBytes { bytes throws(Failure) in try write(bytes) }
        if newline { try write("\n") }
    }
}
