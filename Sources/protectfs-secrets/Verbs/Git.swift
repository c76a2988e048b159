import Glibc

extension SecretGitCredential {
    func perform() throws {
        let credential = try GitCredential(from: 0)
        // Without a host there is nothing to look for: git then asks another helper, or the user.
        guard let server = credential.server else { return }
        let store = try group.store(keybag)
        let accessGroup = try group.accessGroup
        switch operation {
        case "get": try answer(credential, server, store, accessGroup)
        case "store":
            guard let account = credential.username else { return }
            // One that somebody has kept with a realm is the same: git does not say realms.
            let known = try records(credential, server, store)
            let name = known.count == 1 ? known[0].name : .internetPassword(server, account: account)
            _ = try credential.withPassword { password in try store.set(name, value: password, in: accessGroup) }
        case "erase":
            guard let name = try found(credential, server, store)?.name else { return }
            // Another password than the one that was refused stays: somebody has stored a new one meanwhile.
            let isRefused = try credential.withPassword { password in
                try store.delete(name, ifValueIs: password, in: accessGroup)
            }
            if isRefused == nil { try store.delete(name, in: accessGroup) }
        default: return  // an operation of a later git: helpers must ignore what they do not know
        }
    }

    private func answer(
        _ credential: borrowing GitCredential, _ server: SecretServer, _ store: SecretStore, _ accessGroup: AccessGroup?
    ) throws {
        guard let record = try found(credential, server, store), case .internetPassword(_, let account) = record.name
        else {
            return
        }
        let password = try store.value(of: record.name, in: accessGroup)
        // A newline would begin another answer.
        let isOneLine = password.withUnsafeBytes { !$0.contains(UInt8(ascii: "\n")) && !$0.contains(0) }
        guard isOneLine, !account.utf8.contains(UInt8(ascii: "\n")) else {
            throw Failure(
                .refused, "the secret \(record.name.words) has a newline or a NUL in it, and cannot be given to git")
        }
        try StandardOutput.write("username=\(account)\npassword=")
        try StandardOutput.write(password, newline: true)
    }

    /// The one that is meant; of several accounts none, unless git says which.
    private func found(
        _ credential: borrowing GitCredential, _ server: SecretServer, _ store: SecretStore
    ) throws -> SecretRecord? {
        let records = try records(credential, server, store)
        guard records.count > 1 else { return records.first }
        StandardError.line(
            .warning, "\(records.count) accounts of \(quoted(server.host)): none is chosen")
        StandardError.line(.hint, "name one: git config credential.\(server.origin).username NAME")
        return nil
    }

    /// All that fit what git says.
    private func records(
        _ credential: borrowing GitCredential, _ server: SecretServer, _ store: SecretStore
    ) throws -> [SecretRecord] {
        var query = SecretQuery(kind: .internetPassword)
        (query.protocol, query.host, query.port) = (server.protocol, server.host, server.port)
        query.path = server.path
        query.account = credential.username
        return try store.find(query, in: group.scope(allGroups: false)).records
    }
}
