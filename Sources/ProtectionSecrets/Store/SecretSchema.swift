import GRDB

/// The table of secrets. FORMAT.md §2.15.
///
/// A migration is never altered once it was released; a new one is added. The database of a newer version is refused.
enum SecretSchema {
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { database in
            try database.execute(sql: table + ";" + indexes)
        }
        return migrator
    }

    private static let table = """
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
        )
        """
    private static let indexes = """
        CREATE UNIQUE INDEX secretsByName ON secrets
            (accessGroup, kind, service, host, account, protocol, port, path, realm, name);
        CREATE INDEX secretsByService ON secrets (service);
        CREATE INDEX secretsByHost ON secrets (host);
        CREATE INDEX secretsByAccount ON secrets (account);
        """

    /// Whether a database has this table, and no view or other table under its name.
    static func hasTable(_ database: Database) throws -> Bool {
        try String.fetchAll(database, sql: "SELECT sql FROM sqlite_master WHERE name = 'secrets'") == [table]
    }

    /// The columns, in the order in which ``SecretRow`` reads them.
    static let columns = """
        id, kind, accessibility, accessGroup, service, account, protocol, host, port, path, realm, name, created, modified, \
        generation, wrapped, value
        """

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
