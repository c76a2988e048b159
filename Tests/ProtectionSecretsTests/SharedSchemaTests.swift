import GRDB
import SharedDatabase
import SystemPackage
import Testing

/// The definitions of a database, compared letter by letter with those that it should have.
@Suite struct SharedSchemaTests {
    private static let definitions = [
        "CREATE TABLE a (b BLOB PRIMARY KEY NOT NULL, c INTEGER)", "CREATE UNIQUE INDEX d ON a (c)",
        "CREATE TABLE e (f BLOB PRIMARY KEY NOT NULL) WITHOUT ROWID",
    ]
    private let schema = SharedSchema(Self.definitions)
    private let path: FilePath = "a.sqlite"
    private let database: DatabaseQueue

    init() throws { database = try DatabaseQueue() }

    private func make() throws { try database.write { try schema.prepare($0, path) } }
    private func check() throws { try database.read { try schema.check($0, path) } }
    private func execute(_ sql: String) throws {
        try database.writeWithoutTransaction { try $0.execute(sql: sql) }
    }

    private func expectDamaged(_ body: () throws -> Void) {
        #expect { try body() } throws: { if case SharedDatabaseError.damaged = $0 { true } else { false } }
    }

    @Test("The schema is made as expected, and making it again changes nothing")
    func made() throws {
        try make()
        try check()
        try execute("INSERT INTO a VALUES (x'00', 1)")
        try make()
        #expect(try database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM a") } == 1)
    }

    @Test("A database that GRDB's migrator made, as earlier builds did, has the same definitions")
    func ofEarlierBuilds() throws {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { try $0.execute(sql: Self.definitions.joined(separator: ";\n") + ";") }
        try migrator.migrate(database)
        try check()
        try make()
        // And the other way round.
        let other = try DatabaseQueue()
        try other.write { try schema.prepare($0, path) }
        #expect(try other.read(migrator.hasCompletedMigrations))
        #expect(try !other.read(migrator.hasBeenSuperseded))
    }

    @Test("A later version is refused as such, whatever else it has defined")
    func newer() throws {
        try make()
        try execute("CREATE TABLE later (a); INSERT INTO grdb_migrations VALUES ('2')")
        #expect { try check() } throws: { if case SharedDatabaseError.newer = $0 { true } else { false } }
    }

    @Test(
        "Any other definition is refused",
        arguments: [
            "CREATE TABLE x (y)", "CREATE INDEX x ON a (c)", "CREATE VIEW x AS SELECT 1",
            "CREATE TRIGGER x AFTER INSERT ON a BEGIN DELETE FROM a; END", "DROP INDEX d", "DROP TABLE e",
            "DROP INDEX d; CREATE INDEX d ON a (c)", "DROP TABLE e; CREATE TABLE e (f BLOB PRIMARY KEY NOT NULL)",
            "DROP TABLE e; CREATE VIEW e AS SELECT x'00' AS f", "ALTER TABLE a ADD COLUMN z",
            "DROP TABLE grdb_migrations", "CREATE VIRTUAL TABLE x USING fts5(y)",
            "ALTER TABLE a RENAME TO x", "DROP TABLE e; CREATE TABLE E (f BLOB PRIMARY KEY NOT NULL) WITHOUT ROWID",
        ])
    func others(_ sql: String) throws {
        try make()
        try execute(sql)
        expectDamaged(check)
        expectDamaged(make)
    }

    @Test(
        "Rows of sqlite_schema that no statement makes are refused",
        arguments: [
            "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'e') WHERE name = 'a'",
            "UPDATE sqlite_schema SET rootpage = 0 WHERE name = 'a'",
            "UPDATE sqlite_schema SET tbl_name = 'e' WHERE name = 'a'",
            "UPDATE sqlite_schema SET sql = replace(sql, ' NOT NULL', '') WHERE name = 'a'",
            "UPDATE sqlite_schema SET sql = sql || ' ' WHERE name = 'a'",
            "UPDATE sqlite_schema SET type = 'view' WHERE name = 'a'",
            "UPDATE sqlite_schema SET sql = NULL WHERE name = 'd'",
            "UPDATE sqlite_schema SET sql = CAST(sql AS BLOB) WHERE name = 'a'",
            "DELETE FROM sqlite_schema WHERE name = 'd'",
        ])
    func rows(_ sql: String) throws {
        try make()
        // Written as bytes of a file would be: SQLite goes on with what it has read before.
        try execute("PRAGMA writable_schema = ON")
        try execute(sql)
        expectDamaged(check)
    }

    @Test("Tables that ANALYZE makes are accepted")
    func analyzed() throws {
        try make()
        try execute("INSERT INTO a VALUES (x'00', 1); ANALYZE")
        try check()
    }

    @Test("A watch compares again whenever the number of the definitions changes, and after it has refused")
    func watched() throws {
        try make()
        let watch = SchemaWatch(schema, path)
        let number = try #require(try database.read { try Int.fetchOne($0, sql: "PRAGMA schema_version") })
        try database.write(watch.check)
        try execute("CREATE VIEW x AS SELECT 1")
        expectDamaged { try database.write(watch.check) }
        try execute("PRAGMA schema_version = \(number)")
        expectDamaged { try database.write(watch.check) }
        #expect(try database.write(SharedSchema.dropPlanted) == ["view x"])
        try database.write(watch.check)
    }
}
