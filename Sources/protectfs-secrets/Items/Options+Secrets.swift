extension NameOptions {
    /// The secret that is named.
    var secret: SecretName { attributes.named }
}

extension AttributeOptions {
    /// The secret that they name.
    var named: SecretName {
        if let identity { return .identity(name: identity) }
        guard let host else { return .genericPassword(service: service ?? "", account: account ?? "") }
        let server = SecretServer(scheme ?? "https", host: host, port: port ?? 0, path: path ?? "", realm: realm ?? "")
        return .internetPassword(server, account: account ?? "")
    }

    /// What a search is for.
    var query: SecretQuery {
        var query = SecretQuery()
        if service != nil { query.kind = .genericPassword }
        if [host, scheme, path, realm].contains(where: { $0 != nil }) || port != nil { query.kind = .internetPassword }
        if identity != nil { query.kind = .identity }
        (query.service, query.account, query.host, query.protocol) = (service, account, host, scheme)
        (query.port, query.path, query.realm, query.name) = (port, path, realm, identity)
        return query
    }
}

extension AccessibilityArgument {
    var accessibility: SecretAccessibility {
        switch self {
        case .whenUnlocked: .whenUnlocked
        case .whenUnlockedThisDeviceOnly: .whenUnlockedThisDeviceOnly
        case .afterFirstUnlock: .afterFirstUnlock
        case .afterFirstUnlockThisDeviceOnly: .afterFirstUnlockThisDeviceOnly
        }
    }
}

extension GroupOptions {
    /// The store of a keybag, as the program of `--app` sees it.
    func store(_ keybag: KeybagOption) throws -> SecretStore {
        try SecretStore(appID: appID, keybag: keybag.open())
    }

    /// The same, without the triggers and views that somebody has planted in it.
    func storeToLookAfter(_ keybag: KeybagOption) throws -> SecretStore {
        try SecretStore(appID: appID, keybag: keybag.open()) { dropped in
            for planted in dropped {
                StandardError.line(
                    .warning, "dropped from the store of secrets, because protectfs did not make it: \(planted)")
            }
        }
    }

    /// nil: the private group.
    var accessGroup: AccessGroup? { get throws { try group.map { name throws(SecretError) in try AccessGroup(name) } } }

    func scope(allGroups: Bool) throws -> SecretScope {
        if allGroups { return .allGroups }
        return try accessGroup.map { .group($0) } ?? .privateGroup
    }
}
