import DataProtection
import GRDBSQLite
import Glibc
import ProtectionSecrets

/// A store of secrets, and beside it a bare SQLite table with the same columns and index, spoken to in C.
enum Secrets {
    /// Measures one operation among `count` secrets; the store is filled first, if it is not.
    static func measure(_ operation: String, in directory: FilePath, count: Int) throws {
        let store = try SecretStore(appID: "org.example.bench")
        let table = Table(directory.appending("bare.sqlite"))
        if try store.record(of: name(count - 1)) == nil {
            try fill(store, count)
            table.fill(count)
        }
        var next = try store.find(query(host: "new.example.org")).records.count
        var new = next
        func random() -> Int { .random(in: 0..<count) }
        let rounds: Rounds
        switch operation {
        case "look":
            rounds = try Rounds(7, operations: 5_000) {
                for _ in 0..<5_000 { guard try store.record(of: name(random())) != nil else { exit(1) } }
            } peer: {
                for _ in 0..<5_000 { guard table.value(of: random()) else { exit(1) } }
            }
        case "read":
            rounds = try Rounds(7, operations: 5_000) {
                for _ in 0..<5_000 { guard try store.value(of: name(random())).count == 24 else { exit(1) } }
            } peer: {
                for _ in 0..<5_000 { guard table.value(of: random()) else { exit(1) } }
            }
        case "add":
            let value = try SecretBytes(randomByteCount: 24)
            rounds = try Rounds(5, operations: 200) {
                for _ in 0..<200 {
                    try store.add(
                        .internetPassword(SecretServer("https", host: "new.example.org"), account: "\(next)"),
                        value: value)
                    next += 1
                }
            } peer: {
                for _ in 0..<200 {
                    table.put(host: "new.example.org", account: "\(new)")
                    new += 1
                }
            }
        case "update":
            let value = try SecretBytes(randomByteCount: 24)
            rounds = try Rounds(5, operations: 200) {
                for _ in 0..<200 { try store.update(name(random()), value: value) }
            } peer: {
                for _ in 0..<200 { table.update(random()) }
            }
        case "search":
            rounds = try Rounds(7, operations: 500) {
                for _ in 0..<500 {
                    guard try store.find(query(host: host(random()))).records.count == 10 else { exit(1) }
                }
            } peer: {
                for _ in 0..<500 { guard table.search(host: host(random())) == 10 else { exit(1) } }
            }
        default: exit(64)
        }
        rounds.report()
    }

    /// Ten accounts a host.
    static func host(_ number: Int) -> String { "host\(number / 10).example.org" }
    static func account(_ number: Int) -> String { "account\(number % 10)" }

    private static func name(_ number: Int) -> SecretName {
        .internetPassword(SecretServer("https", host: host(number)), account: account(number))
    }

    private static func query(host: String) -> SecretQuery {
        var query = SecretQuery(kind: .internetPassword)
        query.host = host
        return query
    }

    /// As an export has them: one transaction.
    private static func fill(_ store: SecretStore, _ count: Int) throws {
        var lines = Array("protectfs secrets 1\n".utf8)
        for number in 0..<count {
            lines +=
                """
                {"accessibility":"when-unlocked","account":"\(account(number))","group":"org.example.bench",\
                "host":"\(host(number))","kind":"internet","protocol":"https"}
                AAECAwQFBgcICQoLDA0ODxAREhMUFRYX

                """.utf8
        }
        lines += "end \(count)\n".utf8
        var offset = 0
        try store.importSecrets { buffer in
            let piece = lines[offset..<min(lines.count, offset + buffer.count)]
            buffer.copyBytes(from: piece)
            offset += piece.count
            return piece.count
        }
    }
}

/// The peer: values in clear.
private final class Table {
    private let database: OpaquePointer?
    private let get, insert, change, find: OpaquePointer?

    init(_ path: FilePath) {
        var database: OpaquePointer?
        guard path.withPlatformString({ sqlite3_open($0, &database) }) == SQLITE_OK else { exit(1) }
        self.database = database
        sqlite3_exec(
            database,
            """
            PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
            CREATE TABLE IF NOT EXISTS secrets (id BLOB PRIMARY KEY, kind INTEGER, accessibility INTEGER, accessGroup TEXT,
                service TEXT, account TEXT, protocol TEXT, host TEXT, port INTEGER, path TEXT, realm TEXT, name TEXT,
                created INTEGER, modified INTEGER, generation INTEGER, wrapped BLOB, value BLOB);
            CREATE UNIQUE INDEX IF NOT EXISTS byName ON secrets
                (accessGroup, kind, service, host, account, protocol, port, path, realm, name);
            CREATE INDEX IF NOT EXISTS byHost ON secrets (host);
            """, nil, nil, nil)
        func prepare(_ sql: String) -> OpaquePointer? {
            var statement: OpaquePointer?
            guard sqlite3_prepare_v2(database, sql, -1, &statement, nil) == SQLITE_OK else { exit(1) }
            return statement
        }
        let named = """
            accessGroup = 'bench' AND kind = 2 AND service = '' AND host = ?1 AND account = ?2 AND protocol = 'https'
            AND port = 0 AND path = '' AND realm = '' AND name = ''
            """
        get = prepare("SELECT * FROM secrets WHERE \(named)")
        change = prepare("UPDATE secrets SET value = randomblob(52), modified = 1 WHERE \(named)")
        find = prepare(
            "SELECT * FROM secrets WHERE accessGroup = 'bench' AND kind = 2 AND host = ?1 ORDER BY host, account")
        insert = prepare(
            """
            INSERT INTO secrets VALUES (randomblob(16), 2, 1, 'bench', '', ?2, 'https', ?1, 0, '', '', '', 0, 0, 1,
                randomblob(40), randomblob(52))
            """)
    }

    func fill(_ count: Int) {
        sqlite3_exec(database, "BEGIN", nil, nil, nil)
        for number in 0..<count { put(host: Secrets.host(number), account: Secrets.account(number)) }
        sqlite3_exec(database, "COMMIT", nil, nil, nil)
    }

    func value(of number: Int) -> Bool { run(get, Secrets.host(number), Secrets.account(number)) == 1 }
    func update(_ number: Int) { _ = run(change, Secrets.host(number), Secrets.account(number)) }
    func put(host: String, account: String) { _ = run(insert, host, account) }
    func search(host: String) -> Int { run(find, host) }

    /// - Returns: how many rows there were; each column of each is read.
    private func run(_ statement: OpaquePointer?, _ texts: String...) -> Int {
        let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
        for (index, text) in texts.enumerated() { sqlite3_bind_text(statement, Int32(index + 1), text, -1, transient) }
        var rows = 0
        while sqlite3_step(statement) == SQLITE_ROW {
            rows += 1
            for column in 0..<sqlite3_column_count(statement) { _ = sqlite3_column_blob(statement, column) }
        }
        sqlite3_reset(statement)
        return rows
    }
}
