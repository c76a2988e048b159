extension NameOptions {
    /// The secret that is named.
    var secret: SecretName {
        let given = attributes
        if let identity = given.identity { return .identity(name: identity) }
        guard let host = given.host else {
            return .genericPassword(service: given.service ?? "", account: given.account ?? "")
        }
        let server = SecretServer(
            given.scheme ?? "https", host: host, port: given.port ?? 0, path: given.path ?? "", realm: given.realm ?? ""
        )
        return .internetPassword(server, account: given.account ?? "")
    }
}

extension AttributeOptions {
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

    /// nil: the private group.
    var accessGroup: AccessGroup? { get throws { try group.map { name throws(SecretError) in try AccessGroup(name) } } }

    func scope(allGroups: Bool) throws -> SecretScope {
        if allGroups { return .allGroups }
        return try accessGroup.map { .group($0) } ?? .privateGroup
    }
}
