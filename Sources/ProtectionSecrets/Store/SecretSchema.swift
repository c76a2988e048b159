import GRDB
import SharedDatabase

/// The table of secrets. FORMAT.md §2.15.
///
/// A definition is never altered once it was released. What SQLite stores is compared with this text, line breaks and blanks included.
enum SecretSchema {
    static let definitions = SharedSchema([
        """
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
        """,
        """
        CREATE UNIQUE INDEX secretsByName ON secrets
            (accessGroup, kind, service, host, account, protocol, port, path, realm, name)
        """,
        "CREATE INDEX secretsByService ON secrets (service)",
        "CREATE INDEX secretsByHost ON secrets (host)",
        "CREATE INDEX secretsByAccount ON secrets (account)",
    ])

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
