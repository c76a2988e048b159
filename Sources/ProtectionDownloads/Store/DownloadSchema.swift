import SharedDatabase

/// The tables of the list. What is sealed is told from what is in clear: FORMAT.md §2.14.
///
/// A definition is never altered once it was released. What SQLite stores is compared with this text, line breaks and blanks included.
/// Earlier versions kept the parts of a download in clear, in `segments` and `isWhole`. Nothing reads or writes these any more.
enum DownloadSchema {
    /// How many rows hold what only the store key opens.
    static let sealedRows = """
        SELECT (SELECT count(*) FROM downloads) + (SELECT count(*) FROM integrityKeys) + (SELECT count(*) FROM credentials)
        """

    static let definitions = SharedSchema([
        """
        CREATE TABLE downloads (
            id BLOB PRIMARY KEY NOT NULL,
            state INTEGER NOT NULL,
            activity INTEGER NOT NULL DEFAULT 0,
            priority INTEGER NOT NULL,
            position INTEGER NOT NULL,
            added INTEGER NOT NULL,
            began INTEGER NOT NULL,
            ended INTEGER,
            notBefore INTEGER NOT NULL DEFAULT 0,
            failures INTEGER NOT NULL DEFAULT 0,
            attempts INTEGER NOT NULL DEFAULT 0,
            received INTEGER NOT NULL DEFAULT 0,
            furthest INTEGER NOT NULL DEFAULT 0,
            length INTEGER,
            isWhole INTEGER NOT NULL DEFAULT 0,
            request BLOB NOT NULL,
            resource BLOB,
            failure BLOB,
            result BLOB
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE segments (
            download BLOB NOT NULL REFERENCES downloads(id) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            start INTEGER NOT NULL,
            synced INTEGER NOT NULL,
            PRIMARY KEY (download, number)
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE integrityKeys (
            id BLOB PRIMARY KEY NOT NULL,
            isRetired INTEGER NOT NULL,
            name BLOB NOT NULL,
            key BLOB NOT NULL
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE failedCredentials (
            mark BLOB PRIMARY KEY NOT NULL,
            credential BLOB NOT NULL
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE credentials (
            id BLOB PRIMARY KEY NOT NULL,
            position INTEGER NOT NULL,
            download BLOB REFERENCES downloads(id) ON DELETE CASCADE,
            entry BLOB NOT NULL,
            secret BLOB,
            identity BLOB
        ) WITHOUT ROWID
        """,
    ])
}
