import Glibc

extension SecretAdd: PerformedSecretVerb {
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

extension SecretSet: PerformedSecretVerb {
    func perform() throws {
        let store = try group.store(keybag)
        let secret = name.secret
        let value = try value.read(for: secret)
        try store.set(secret, value: value, accessibility: accessibility?.accessibility, in: group.accessGroup)
    }
}

extension SecretUpdate: PerformedSecretVerb {
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

extension SecretGet: PerformedSecretVerb {
    func perform() throws {
        let store = try group.store(keybag)
        let accessGroup = try group.accessGroup
        guard case .identity(let identityName) = name.secret else {
            try StandardOutput.write(store.value(of: name.secret, in: accessGroup), newline: !raw)
            return
        }
        let identity = try store.identity(identityName, in: accessGroup)
        if passphrase {
            try StandardOutput.write(identity.passphrase, newline: !raw)
        } else {
            try StandardOutput.write(identity.pkcs12, newline: false)
        }
    }
}

extension SecretDelete: PerformedSecretVerb {
    func perform() throws {
        let store = try group.store(keybag)
        if damaged {
            try store.deleteDamaged()
        } else {
            try store.delete(attributes.named, in: group.accessGroup)
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
