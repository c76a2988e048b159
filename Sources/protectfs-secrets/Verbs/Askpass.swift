extension SecretAskpass {
    func perform() throws {
        guard let question = AskpassQuestion(question) else {
            throw Failure(.notFound, "this question is about no secret: \(quoted(self.question))")
        }
        let store = try group.store(keybag)
        switch question {
        case .account(let server): try StandardOutput.write(try account(at: server, store) + "\n")
        case .secret(let name):
            try StandardOutput.write(store.value(of: name, in: group.accessGroup), newline: true)
        }
    }

    /// The one account that there is at a server.
    private func account(at server: SecretServer, _ store: SecretStore) throws -> String {
        var query = SecretQuery(kind: .internetPassword)
        (query.protocol, query.host, query.port, query.path) = (server.protocol, server.host, server.port, server.path)
        let records = try store.find(query, in: group.scope(allGroups: false)).records
        guard records.count == 1, case .internetPassword(_, let account) = records[0].name else {
            throw Failure(.notFound, "\(spoken(records.count, "account")) of \(quoted(server.host)): none is chosen")
        }
        return account
    }
}
