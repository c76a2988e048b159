package import GRDB
import Synchronization
package import SystemPackage

/// The definitions that a database has: as literal SQL, and no others. FORMAT.md §2.14, §2.15.
///
/// A program that can write to the database while the keybag is locked can plant a trigger or a view, or alter a table, and so change what unlocked
/// code does. So the definitions that SQLite has stored are compared with these, letter by letter, before anything is believed or changed. No stored
/// number decides which definitions there are.
package struct SharedSchema: Sendable {
    /// `CREATE TABLE NAME …` and `CREATE [UNIQUE] INDEX NAME …`, exactly as SQLite stores them.
    private let statements: [String]
    private let expected: Set<Definition>

    /// The only version so far, as a row of ``versions``. Earlier builds looked there for what was still to be done.
    private static let version = "1"
    private static let versions = "CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY)"
    /// What `ANALYZE` makes, if somebody looks after the database by hand. They say how rows are found, and never which.
    private static let statistics: Set = [
        Definition("CREATE TABLE sqlite_stat1(tbl,idx,stat)"),
        Definition("CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)"),
    ]

    /// - Parameter definitions: each with one space between its first words.
    package init(_ definitions: [String]) {
        statements = [Self.versions] + definitions
        expected = Set(statements.map(Definition.init))
    }

    /// A row of `sqlite_schema`.
    private struct Definition: Hashable {
        let type: String
        let name: String
        let sql: String

        init(_ sql: String) {
            let words = sql.split(maxSplits: 4) { " \n(".contains($0) }
            let isIndex = words.contains("INDEX")
            type = isIndex ? "index" : "table"
            name = String(words[words[1] == "UNIQUE" ? 3 : 2])
            self.sql = sql
        }

        init(type: String, name: String, sql: String) { (self.type, self.name, self.sql) = (type, name, sql) }
    }

    // MARK: making

    /// Makes the definitions if there are none at all; else compares. In one transaction.
    ///
    /// - Throws: `damaged`, `newer`.
    package func prepare(_ database: Database, _ path: FilePath) throws {
        if try Int.fetchOne(database, sql: "SELECT count(*) FROM sqlite_schema") == 0 {
            for statement in statements { try database.execute(sql: statement) }
        } else {
            try check(database, path)
        }
        // Missing where somebody has put the number back: earlier builds would make the tables again.
        try database.execute(sql: "INSERT OR IGNORE INTO grdb_migrations VALUES (?)", arguments: [Self.version])
    }

    /// Whether nothing is left to be made. What is there has been compared then.
    func isComplete(_ database: Database, _ path: FilePath) throws -> Bool {
        guard try Int.fetchOne(database, sql: "SELECT count(*) FROM sqlite_schema") != 0 else { return false }
        try check(database, path)
        return try Int.fetchOne(
            database, sql: "SELECT count(*) FROM grdb_migrations WHERE identifier = ?", arguments: [Self.version]) == 1
    }

    // MARK: comparing

    /// Compares all that is defined: tables, indexes, triggers, views, and where they lie in the file.
    ///
    /// - Throws: `newer` if a version is noted that this build does not know; `damaged` if anything else is defined than it should be.
    package func check(_ database: Database, _ path: FilePath) throws {
        // First: whatever a newer version has defined is not ours to judge. A table of that name, and nothing that computes.
        let versions = Definition(Self.versions)
        let rows = try Row.fetchAll(database, sql: "SELECT type, name, tbl_name, sql, rootpage FROM sqlite_schema")
        if rows.contains(where: { StoredRow($0).text(3) == versions.sql && StoredRow($0).text(1) == versions.name }) {
            let others = try Int.fetchOne(
                database, sql: "SELECT count(*) FROM grdb_migrations WHERE identifier <> ?", arguments: [Self.version])
            if others != 0 { throw SharedDatabaseError.newer(path) }
        }
        var missing = expected
        var pages: Set<Int64> = []
        for row in rows {
            let values = StoredRow(row)
            let (type, name, table) = (values.text(0), values.text(1), values.text(2))
            func planted() -> SharedDatabaseError {
                .damaged(path, reason: "it has a \(Self.kind(type)) that is not ours: \(name)")
            }
            // Two tables in one place would overwrite each other.
            guard ["table", "index"].contains(type), pages.insert(values.number(4, in: 2 ... .max)).inserted,
                !values.isDamaged
            else { throw planted() }
            if values.isNull(3) {
                // SQLite's own, for a primary key.
                guard type == "index", name == "sqlite_autoindex_\(table)_1",
                    expected.contains(where: { $0.type == "table" && $0.name == table })
                else { throw planted() }
                continue
            }
            let definition = Definition(type: type, name: name, sql: values.text(3))
            guard missing.remove(definition) != nil || Self.statistics.contains(definition) else { throw planted() }
            guard !values.isDamaged, type == "index" || table == name else { throw planted() }
        }
        guard let first = missing.map(\.name).min() else { return }
        throw SharedDatabaseError.damaged(path, reason: "\(first) is not defined")
    }

    private static func kind(_ type: String) -> String {
        ["table", "index", "trigger", "view"].contains(type) ? type : "definition"
    }

    // MARK: putting right

    /// Drops triggers and views, which no database of ours has. What they would do does not happen meanwhile.
    ///
    /// - Returns: what was dropped, for people: `trigger NAME`.
    package static func dropPlanted(_ database: Database) throws -> [String] {
        let rows = try Row.fetchAll(
            database, sql: "SELECT type, name FROM sqlite_schema WHERE type IN ('trigger', 'view') ORDER BY type, name")
        return try rows.map { row in
            let (type, name) = (StoredRow(row).text(0), StoredRow(row).text(1))
            let quoted = name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"")
            try database.execute(sql: "DROP \(type == "view" ? "VIEW" : "TRIGGER") IF EXISTS \"\(quoted)\"")
            return "\(type) \(name)"
        }
    }
}

/// Sees to it that a database that is open still has the definitions that it was opened with.
///
/// SQLite counts every change of them. It reads them again only when that number changes, and so does this.
package final class SchemaWatch: Sendable {
    private let schema: SharedSchema
    private let path: FilePath
    /// The number of the definitions that were compared last.
    private let compared = Mutex<Int64?>(nil)

    package init(_ schema: SharedSchema, _ path: FilePath) { (self.schema, self.path) = (schema, path) }

    /// Called first in every transaction that changes something: nobody can alter the definitions until it ends.
    ///
    /// - Throws: as ``SharedSchema/check(_:_:)``.
    package func check(_ database: Database) throws {
        let number = try Int64.fetchOne(database.cachedStatement(sql: "PRAGMA schema_version"))
        if let number, compared.withLock({ $0 }) == number { return }
        // Not even the earlier number counts any more: it can be put back.
        compared.withLock { $0 = nil }
        try schema.check(database, path)
        compared.withLock { $0 = number }
    }
}
