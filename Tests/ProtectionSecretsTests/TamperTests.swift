import Foundation
import GRDB
import ProtectionKeys
import Testing

@testable import DataProtection
@testable import ProtectionSecrets

/// Somebody who can write to the database: what was altered is refused, the rest is unharmed.
@Suite struct SecretTamperTests {
    private let bed: SecretsBed
    private let altered: SecretRecord
    private let other = SecretName.internetPassword(SecretServer("https", host: "example.org"), account: "lee")

    init() throws {
        bed = try SecretsBed()
        altered = try bed.store.add(.account("kim"), value: secret("value of kim"))
        try bed.store.add(other, value: secret("value of lee"), accessibility: .afterFirstUnlock)
    }

    private func execute(_ sql: String, _ arguments: StatementArguments) throws {
        try bed.store.write { try $0.execute(sql: sql, arguments: arguments) }
    }

    /// Whatever the row says now, it does not give a value; the other one is as it was.
    private func expectRefused(_ context: String) throws {
        let found = try bed.store.find(in: .allGroups)
        for record in found.records where record.name != other {
            #expect(throws: SecretError.self, "\(context)") { try bed.store.text(record.name, in: record.group) }
        }
        #expect(found.records.count + found.damaged == 2, "\(context)")
        #expect(try bed.store.text(other) == "value of lee", "\(context)")
        #expect(try bed.another().text(other) == "value of lee", "\(context)")
    }

    private static let texts = ["accessGroup", "service", "account", "protocol", "host", "path", "realm", "name"]
    private static let numbers = ["kind", "accessibility", "port", "created", "modified", "generation"]
    private static let bytes = ["id", "wrapped", "value"]

    private func stored(_ column: String) throws -> DatabaseValue? {
        try bed.store.read {
            try DatabaseValue.fetchOne(
                $0, sql: "SELECT \(column) FROM secrets WHERE id = ?", arguments: [Data(altered.id)])
        }
    }

    /// Each of these in the place of what is there.
    private func alter(_ column: String, to values: [any DatabaseValueConvertible]) throws {
        let original = try stored(column)
        for value in values where value.databaseValue != original {
            try execute("UPDATE secrets SET \(column) = ? WHERE id = ?", [value, Data(altered.id)])
            try expectRefused("\(column) = \(value)")
        }
    }

    @Test(arguments: texts) func everyText(_ column: String) throws {
        try alter(column, to: ["x", "org.example.test.a.b.c", "", Data([1, 2]), 7])
    }

    /// What SQLite takes for text and Swift does not, or not as it is: behind a zero byte, no UTF-8, longer than ours are.
    @Test(arguments: texts) func everyOddText(_ column: String) throws {
        let id = Data(altered.id)
        let original = try stored(column)
        for odd in [
            "CAST(\(column) || x'0078' AS TEXT)", "CAST(\(column) || x'ff' AS TEXT)", "CAST(x'f09080' AS TEXT)",
            "CAST(\(column) || zeroblob(5000) AS TEXT)", "upper(\(column)) || 'X y'", "CAST(zeroblob(1) AS TEXT)",
        ] {
            try execute("UPDATE secrets SET \(column) = \(odd) WHERE id = ?", [id])
            try expectRefused("\(column) = \(odd)")
            try execute("UPDATE secrets SET \(column) = ? WHERE id = ?", [original, id])
        }
    }

    @Test(arguments: numbers) func everyNumber(_ column: String) throws {
        let numbers: [Int64] = [0, 1, 2, 3, 4, 5, 65_535, 65_536, .max, .min, -1]
        try alter(column, to: numbers + ["text", Data([1]), 1.5])
    }

    /// Each byte of what is stored in bytes, and other lengths.
    @Test(arguments: bytes) func everyByte(_ column: String) throws {
        let stored = try #require(
            try bed.store.read {
                try Data.fetchOne($0, sql: "SELECT \(column) FROM secrets WHERE id = ?", arguments: [Data(altered.id)])
            })
        var id = Data(altered.id)
        func alter(_ value: Data, _ context: String) throws {
            try execute("UPDATE secrets SET \(column) = ? WHERE id = ?", [value, id])
            if column == "id" { id = value }
            try expectRefused("\(column): \(context)")
        }
        for index in stored.indices {
            var value = stored
            value[index] ^= 0x40
            try alter(value, "byte \(index)")
        }
        for value in [Data(), stored.dropLast(), stored + [0], Data(stored.prefix(1))] {
            try alter(Data(value), "\(value.count) bytes")
        }
        if column != "id" { try execute("UPDATE secrets SET \(column) = 'text' WHERE id = ?", [id]) }
        try expectRefused("\(column) = text")
    }

    /// Values, wraps, or both, of two rows exchanged.
    @Test(arguments: [
        ["value"], ["wrapped"], ["wrapped", "value"], ["wrapped", "value", "generation", "modified", "created"],
    ])
    func swapped(_ columns: [String]) throws {
        let kim = altered
        let third = try bed.store.add(.account("pat"), value: secret("value of pat"))
        for column in columns {
            let values = try [third, kim].map { record in
                try bed.store.read {
                    try DatabaseValue.fetchOne(
                        $0, sql: "SELECT \(column) FROM secrets WHERE id = ?", arguments: [Data(record.id)])
                }
            }
            for (record, value) in zip([kim, third], values) {
                try execute("UPDATE secrets SET \(column) = ? WHERE id = ?", [value, Data(record.id)])
            }
        }
        #expect(throws: SecretError.self) { try bed.store.text(kim.name) }
        #expect(throws: SecretError.self) { try bed.store.text(third.name) }
        #expect(try bed.store.text(other) == "value of lee")
        // It can be put right, and deleted.
        try bed.store.set(kim.name, value: secret("anew"), accessibility: .whenUnlocked)
        #expect(try bed.store.text(kim.name) == "anew")
        try bed.store.delete(third.name)
    }

    /// Under another name of the same row: what an altered attribute makes of it.
    @Test func renamed() throws {
        try execute("UPDATE secrets SET account = 'admin' WHERE id = ?", [Data(altered.id)])
        #expect(throws: SecretError.self) { try bed.store.text(.account("admin")) }
        #expect(throws: SecretError.self) { try bed.store.text(.account("kim")) }
    }

    /// What makes no sense keeps retired class keys from being forgotten, and can be deleted without a name; the rest stays.
    @Test(arguments: [
        ("kind", "9"), ("accessGroup", "x'00'"), ("accessGroup", "'x y'"), ("wrapped", "x'00'"), ("id", "'none'"),
        ("service", "CAST(x'610062' AS TEXT)"), ("account", "CAST(x'f09080' AS TEXT)"), ("host", "'Example.org'"),
        ("value", "zeroblob(65565)"),
    ])
    func whatMakesNoSenseIsDeleted(column: String, value: String) throws {
        #expect(try bed.store.deleteDamaged() == 0)
        try execute("UPDATE secrets SET \(column) = \(value) WHERE id = ?", [Data(altered.id)])
        try execute("UPDATE secrets SET value = zeroblob(64) WHERE id <> ?", [Data(altered.id)])
        #expect(try bed.store.deleteDamaged() == 1)
        #expect(try bed.store.needingRewrap() == 0)
        let found = try bed.store.find(in: .allGroups)
        #expect(found.damaged == 0 && found.records.map(\.name) == [other], "what does not open has a name, and stays")
    }

    // MARK: definitions

    /// What somebody else does with the database, by a connection of their own.
    private func alterDatabase(_ sql: String) throws {
        try DatabaseQueue(path: bed.store.path.string).writeWithoutTransaction { try $0.execute(sql: sql) }
    }

    private func expectStoreDamaged(_ body: () throws -> Void) {
        #expect { try body() } throws: { if case SecretError.storeDamaged = $0 { true } else { false } }
    }

    /// Neither a store that is opened afterwards nor one that was open does what a planted definition says.
    @Test(arguments: [
        "CREATE TRIGGER planted AFTER INSERT ON secrets BEGIN DELETE FROM secrets; END",
        "CREATE TRIGGER planted BEFORE UPDATE ON secrets BEGIN INSERT INTO grdb_migrations VALUES ('seen'); END",
        "CREATE TABLE planted (a); CREATE TRIGGER copy AFTER DELETE ON secrets BEGIN INSERT INTO planted VALUES (1); END",
        "CREATE VIEW planted AS SELECT * FROM secrets", "CREATE TABLE planted (a)",
        "CREATE INDEX planted ON secrets (kind)",
        "CREATE TABLE sqlite (a)", "CREATE VIRTUAL TABLE planted USING fts5(a)",
        "DROP INDEX secretsByName", "DROP TABLE grdb_migrations", "ALTER TABLE secrets ADD COLUMN extra",
        "ALTER TABLE secrets RENAME TO other; CREATE VIEW secrets AS SELECT * FROM other",
        """
        PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'realm TEXT NOT NULL', 'realm TEXT DEFAULT (1)');
        PRAGMA writable_schema = OFF; PRAGMA schema_version = 4711
        """,
    ])
    func plantedDefinition(_ sql: String) throws {
        let before = try bed.store.read { try Int.fetchOne($0, sql: "PRAGMA schema_version") }
        try alterDatabase(sql)
        for _ in 0..<2 {
            expectStoreDamaged { try bed.store.add(.account("pat"), value: secret("value of pat")) }
            expectStoreDamaged { _ = try bed.another() }
        }
        // As if nothing had happened.
        try alterDatabase("PRAGMA schema_version = \(try #require(before))")
        expectStoreDamaged { try bed.store.delete(other) }
        expectStoreDamaged { _ = try bed.another() }
        let rows = try DatabaseQueue(path: bed.store.path.string).read {
            try Int.fetchOne($0, sql: "SELECT count(*) FROM secrets")
        }
        #expect(rows == 2)
    }

    /// Triggers and views go when somebody asks for it, without having done anything; nothing else does.
    @Test func plantedDefinitionIsDropped() throws {
        try alterDatabase(
            """
            CREATE TRIGGER "a ""b"" c" AFTER DELETE ON secrets BEGIN DELETE FROM secrets; END;
            CREATE VIEW seen AS SELECT * FROM secrets;
            CREATE TRIGGER later INSTEAD OF DELETE ON seen BEGIN DELETE FROM secrets; END
            """)
        expectStoreDamaged { _ = try bed.another() }
        var dropped: [String] = []
        let store = try SecretStore(appID: SecretsBed.appID, keybag: Keybag(at: bed.keybag.directory)) { dropped += $0 }
        #expect(dropped == ["trigger a \"b\" c", "trigger later", "view seen"])
        #expect(try store.deleteDamaged() == 0)
        #expect(try store.text(altered.name) == "value of kim" && bed.another().text(other) == "value of lee")
        try bed.store.delete(other)
        #expect(try bed.store.text(altered.name) == "value of kim")
        try alterDatabase("CREATE TABLE planted (a)")
        expectStoreDamaged {
            _ = try SecretStore(appID: SecretsBed.appID, keybag: Keybag(at: bed.keybag.directory)) { dropped += $0 }
        }
        #expect(dropped.count == 3)
    }

    /// The definitions themselves say which there are: with an earlier number nothing is made again, and no row is lost.
    @Test(arguments: ["DELETE FROM grdb_migrations", "PRAGMA user_version = 0", "PRAGMA user_version = 7"])
    func theNumberOfTheDefinitionsIsPutBack(_ sql: String) throws {
        try alterDatabase(sql)
        #expect(try bed.another().text(altered.name) == "value of kim")
        #expect(try bed.store.text(other) == "value of lee")
        try bed.store.set(altered.name, value: secret("anew"))
        #expect(try bed.another().text(altered.name) == "anew")
        #expect(try bed.store.read { try String.fetchAll($0, sql: "SELECT identifier FROM grdb_migrations") } == ["1"])
    }

    /// What SQLite's own tools do to look after a database is no attack.
    @Test(arguments: ["VACUUM", "ANALYZE", "REINDEX", "PRAGMA optimize", "PRAGMA wal_checkpoint(TRUNCATE)"])
    func maintained(_ sql: String) throws {
        try alterDatabase(sql)
        try bed.store.add(.account("pat"), value: secret("value of pat"))
        #expect(try bed.another().text(.account("pat")) == "value of pat")
        #expect(try bed.another().text(altered.name) == "value of kim")
    }

    // MARK: bytes

    /// A database that is cut short or overwritten is said to be damaged, at opening or at reading; never empty, never a crash.
    @Test func truncated() throws {
        for number in 0..<40 { try bed.store.add(.account("\(number)"), value: secret("value \(number)")) }
        // All of it in the database itself, and nothing in its log.
        try DatabaseQueue(path: bed.store.path.string).writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        let stored = try bed.storedBytes()
        let whole = try #require(stored["secrets.sqlite"])
        let log = stored["secrets.sqlite-wal"] ?? []
        let copy = bed.root.appending("copy")
        for length in stride(from: 0, through: whole.count, by: 4096 / 3) where length < whole.count {
            let keybag = try copyOfKeybag(
                copy, Array(whole[..<length]), log.isEmpty ? [] : Array(log[..<min(length, log.count)]))
            #expect(try Self.isRightOrRefused(keybag, isWhole: false), "\(length) bytes")
        }
        #expect(try Self.isRightOrRefused(copyOfKeybag(copy, whole, log), isWhole: true))
    }

    /// What can still be read is right; all of it can be only if the database is whole.
    private static func isRightOrRefused(_ keybag: Keybag, isWhole: Bool) throws -> Bool {
        let store: SecretStore
        do throws(SecretError) { store = try SecretStore(appID: SecretsBed.appID, keybag: keybag) } catch {
            return !isWhole
        }
        var refused = 0
        for number in 0..<40 {
            let text = try? store.text(.account("\(number)"))
            if let text, text != "value \(number)" { return false }
            if text == nil { refused += 1 }
        }
        return isWhole == (refused == 0)
    }

    private func copyOfKeybag(_ directory: FilePath, _ database: [UInt8], _ log: [UInt8]) throws -> Keybag {
        try? FileManager.default.removeItem(atPath: directory.string)
        try FileManager.default.copyItem(atPath: bed.keybag.directory.string, toPath: directory.string)
        let secrets = directory.appending("secrets").string
        for name in try FileManager.default.contentsOfDirectory(atPath: secrets) {
            try FileManager.default.removeItem(atPath: secrets + "/" + name)
        }
        try Data(database).write(to: URL(fileURLWithPath: secrets + "/secrets.sqlite"))
        if !log.isEmpty { try Data(log).write(to: URL(fileURLWithPath: secrets + "/secrets.sqlite-wal")) }
        return try Keybag(at: directory)
    }

    /// What is secret is in no file of the store, in any state of it; what is clear is found, or the search is blind.
    @Test func nothingIsInClear() throws {
        let planted = "planted-\(UInt64.random(in: UInt64.max / 2...UInt64.max))"
        for (number, accessibility) in SecretAccessibility.allCases.enumerated() {
            try bed.store.add(.account("seen \(number)"), value: secret(planted), accessibility: accessibility)
            try bed.store.update(.account("seen \(number)"), value: secret(planted + "!"))
        }
        func contains(_ text: String) throws -> Bool {
            try bed.storedBytes().values.contains { $0.firstRange(of: Array(text.utf8)) != nil }
        }
        for state in [ProtectionState.unlocked, .locked, .beforeFirstUnlock] {
            try bed.enter(state)
            #expect(try !contains(planted))
            #expect(try contains("seen 2"))
            for name in try bed.storedBytes().keys {
                let path = bed.keybag.directory.appending(SecretsKeys.directoryName).appending(name).string
                let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
                #expect(mode == 0o600, "\(name)")
            }
        }
        try bed.enter(.unlocked)
        try bed.store.delete(.account("seen 2"))
        try bed.store.write { try $0.execute(sql: "DELETE FROM secrets") }
    }
}
