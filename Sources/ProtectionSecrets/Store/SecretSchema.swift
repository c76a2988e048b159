import GRDB

/// The table of secrets. FORMAT.md §2.15.
///
/// A migration is never altered once it was released; a new one is added. The database of a newer version is refused.
enum SecretSchema {
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { database in
            try database.execute(
                sql: """
                    CREATE TABLE secrets (
                        id BLOB PRIMARY KEY NOT NULL,
                        kind INTEGER NOT NULL,
                        accessibility INTEGER NOT NULL,
                        accessGroup TEXT NOT NULL,
                        service TEXT NOT NULL,
                        account TEXT NOT NULL,
                        protocol TEXT NOT NULL,
                        host TEXT NOT NULL,
                        port INTEGER NOT NULL,
                        path TEXT NOT NULL,
                        realm TEXT NOT NULL,
                        name TEXT NOT NULL,
                        created INTEGER NOT NULL,
                        modified INTEGER NOT NULL,
                        generation INTEGER NOT NULL,
                        wrapped BLOB NOT NULL,
                        value BLOB NOT NULL
                    );
                    CREATE UNIQUE INDEX secretsByName ON secrets
                        (accessGroup, kind, service, host, account, protocol, port, path, realm, name);
                    CREATE INDEX secretsByService ON secrets (service);
                    CREATE INDEX secretsByHost ON secrets (host);
                    CREATE INDEX secretsByAccount ON secrets (account);
                    """)
        }
        return migrator
    }

    /// The columns, in the order in which ``SecretRow`` reads them.
    static let columns = """
        id, kind, accessibility, accessGroup, service, account, protocol, host, port, path, realm, name, created, modified, \
        generation, wrapped, value
        """

    /// Whether a database that somebody else may have made has an ordinary table of these columns: no view, which could compute for ever, and
    /// nothing that is calculated.
    static func isTableOfOurs(_ database: Database) throws -> Bool {
        let definition = try Row.fetchAll(database, sql: "SELECT type, sql FROM sqlite_master WHERE name = 'secrets'")
        guard definition.count == 1, definition[0]["type"] == "table",
            (definition[0]["sql"] as String?)?.hasPrefix("CREATE TABLE") == true
        else { return false }
        let found = try Row.fetchAll(database, sql: "PRAGMA table_xinfo(secrets)")
        return found.map { $0["name"] as String? ?? "" }.joined(separator: ", ") == columns
            && found.allSatisfy { $0["hidden"] == 0 }
    }

    /// Reads the secret of a name.
    static let selectNamed = "SELECT \(columns) FROM secrets WHERE \(isNamed)"

    /// What finds the secret of a name: the arguments of ``SecretColumns/arguments(in:)``.
    static let isNamed = """
        accessGroup = ? AND kind = ? AND service = ? AND host = ? AND account = ? AND protocol = ? AND port = ? AND path = ? \
        AND realm = ? AND name = ?
        """
}

extension SecretColumns {
    /// For ``SecretSchema/isNamed``.
    func arguments(in group: AccessGroup) -> StatementArguments {
        [
            group.description, Int64(kind.rawValue), service, host, account, `protocol`, Int64(port), path, realm, name,
        ]
    }
}
