extension SecretFind {
    func perform() throws {
        let store = try group.store(keybag)
        var query = attributes.query
        query.accessibility = accessibility?.accessibility
        let found = try store.find(query, in: group.scope(allGroups: allGroups))
        let counts = Dictionary(grouping: found.records, by: \.name).mapValues(\.count)
        if json {
            try JSON.array(found.records.map { record in record.members(isDuplicate: counts[record.name]! > 1) })
                .print()
        } else {
            var lines = OutputLines()
            for record in found.records {
                var words = "\(record.name.kind.word)  \(record.accessibility.name)  \(record.name.words)"
                if allGroups {
                    words += "  \(printable("\(record.group)"))\(counts[record.name]! > 1 ? "  duplicate" : "")"
                }
                try lines.add(Array(words.utf8))
            }
            try lines.finish()
        }
        guard found.damaged > 0 else { return }
        throw Failure(
            .damaged, "\(spoken(found.damaged, "secret")) in \(quoted(store.path)) damaged or altered",
            hint: "put them back from a backup, or: protectfs secret delete --damaged")
    }
}

extension SecretRecord {
    fileprivate func members(isDuplicate: Bool) -> JSON {
        var members: [(String, JSON)] = [("kind", .string(name.kind.word))]
        switch name {
        case .genericPassword(let service, let account):
            members += [("service", .string(service)), ("account", .string(account))]
        case .internetPassword(let server, let account):
            members += [
                ("protocol", .string(server.protocol)), ("host", .string(server.host)),
                ("port", .number(Int64(server.port))), ("path", .string(server.path)), ("realm", .string(server.realm)),
                ("account", .string(account)),
            ]
        case .identity(let name): members.append(("name", .string(name)))
        }
        members += [
            ("accessibility", .string(accessibility.name)), ("group", .string("\(group)")),
            ("created", .number(createdAt)), ("modified", .number(modifiedAt)), ("duplicate", .bool(isDuplicate)),
        ]
        return .object(members)
    }
}
