import Foundation
import GRDB
import ProtectionKeys
import Testing

@testable import DataProtection
@testable import ProtectionSecrets

/// Secrets in a backup: copied in every lock state, opened by the backup's class keys alone.
@Suite struct SecretBackupTests {
    private let (bed, other): (SecretsBed, SecretsBed)
    private let backup: Backup
    private static let phrase = "a passphrase for tests"

    init() throws {
        (bed, other) = (try SecretsBed(), try SecretsBed())
        for accessibility in SecretAccessibility.allCases {
            try bed.store.add(
                .account(accessibility.name), value: secret(accessibility.name), accessibility: accessibility)
        }
        backup = try Backup(at: bed.root.appending("backup"), for: .backup)
        try backup.makeKeybag(of: bed.keybag, passphrase: secret(Self.phrase), iterations: 1_000)
    }

    private var path: FilePath { backup.path.appending(Backup.secretsName) }

    private func copy() throws -> SecretBackupResult {
        try bed.store.copy(to: backup.directory, having: backup.secretsKeyNames(of: bed.keybag))
    }

    private struct NoKeys: Error {}

    private static func keys(of backup: Backup) throws -> SecretKeyList {
        let opened = try backup.open(passphrase: secret(phrase))
        guard let keys = SecretKeyList(encoded: try opened.secretsKeys()) else { throw NoKeys() }
        return keys
    }

    private func restore(replacing: Bool = false, isTrial: Bool = false) throws -> SecretBackupResult {
        let keys = try Self.keys(of: backup)
        return try other.store.restore(from: backup.directory, keys, replacing: replacing, isTrial: isTrial)
    }

    private func text(_ accessibility: SecretAccessibility) throws -> String {
        try other.store.text(.account(accessibility.name))
    }

    @Test(arguments: [ProtectionState.unlocked, .locked, .beforeFirstUnlock])
    func everyState(_ state: ProtectionState) throws {
        try bed.enter(state)
        let copied = try copy()
        #expect(copied.done == 2 && copied.leftOut == 2 && copied.withoutKey == 0 && copied.failures.isEmpty)
        let names = try FileManager.default.contentsOfDirectory(atPath: backup.path.string).sorted()
        #expect(names == ["keybag", "secrets.sqlite"])
        #expect(try restore(isTrial: true).done == 2)
        #expect(try other.store.find().records.isEmpty)
        #expect(try restore().done == 2)
        for accessibility in [SecretAccessibility.whenUnlocked, .afterFirstUnlock] {
            #expect(try text(accessibility) == accessibility.name)
            #expect(try other.store.record(of: .account(accessibility.name))?.accessibility == accessibility)
        }
        // Done again, it goes on where it was.
        let again = try restore()
        #expect(again.done == 0 && again.leftOut == 2 && again.failures.isEmpty)
    }

    @Test func anotherValueIsThere() throws {
        _ = try copy()
        try other.store.add(.account("when-unlocked"), value: secret("another"))
        let result = try restore()
        #expect(result.done == 1 && result.failures.count == 1)
        #expect(try text(.whenUnlocked) == "another")
        #expect(try restore(replacing: true).done == 1)
        #expect(try text(.whenUnlocked) == "when-unlocked")
    }

    /// New class keys that the backup has not got: what is under them is not copied for nothing, and what was copied before stays.
    @Test func rotated() throws {
        try bed.rotate()
        #expect(try copy().done == 2)
        _ = try bed.store.rewrap()
        try bed.store.delete(.account("after-first-unlock"))
        let without = try copy()
        #expect(without.done == 0 && without.withoutKey == 1)
        #expect(try restore(isTrial: true).done == 2, "the copies of before")
        try bed.store.add(
            .account("after-first-unlock"), value: secret("after-first-unlock"), accessibility: .afterFirstUnlock)
        try backup.renewKeybag(of: bed.keybag, passphrase: secret(Self.phrase), iterations: 1_000)
        #expect(try copy().done == 2)
        #expect(try restore().done == 2)
        #expect(try text(.whenUnlocked) == "when-unlocked")
    }

    /// What the disk has damaged keeps its earlier copy, which is what the hint says to put back.
    @Test(arguments: ["kind = 9", "wrapped = x'00'", "id = 'none'"]) func damaged(_ change: String) throws {
        _ = try copy()
        try bed.store.write { try $0.execute(sql: "UPDATE secrets SET \(change) WHERE accessibility = 1") }
        let result = try copy()
        #expect(result.done == 1 && result.failures.count == 1)
        #expect(try restore().done == 2)
        #expect(try text(.whenUnlocked) == "when-unlocked")
    }

    /// A backup may be a stranger's: what is no file with a table of ours is refused, and nothing is followed, made or waited for.
    @Test(arguments: ["link", "fifo", "directory", "view", "wide", "wal", "empty", "garbage"])
    func crafted(_ what: String) throws {
        _ = try copy()
        let elsewhere = bed.root.appending("elsewhere")
        try FileManager.default.createDirectory(atPath: elsewhere.string, withIntermediateDirectories: false)
        let there = elsewhere.appending("db")
        try FileManager.default.moveItem(atPath: path.string, toPath: there.string)
        switch what {
        case "link":
            try FileManager.default.createSymbolicLink(atPath: path.string, withDestinationPath: there.string)
        case "fifo": try #require(mkfifo(path.string, 0o600) == 0)
        case "directory":
            try FileManager.default.createDirectory(atPath: path.string, withIntermediateDirectories: false)
        case "empty": try Data().write(to: URL(fileURLWithPath: path.string))
        case "garbage": try Data(repeating: 7, count: 8192).write(to: URL(fileURLWithPath: path.string))
        default:
            let database = try DatabaseQueue(path: there.string)
            try database.writeWithoutTransaction { database in
                switch what {
                case "view":
                    try database.execute(
                        sql: """
                            ALTER TABLE secrets RENAME TO others;
                            CREATE VIEW secrets AS WITH RECURSIVE endless(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM endless)
                            SELECT others.* FROM others, endless;
                            """)
                case "wide": try database.execute(sql: "ALTER TABLE secrets ADD COLUMN more TEXT")
                default: try database.execute(sql: "PRAGMA journal_mode = WAL")
                }
            }
            try database.close()
            try FileManager.default.moveItem(atPath: there.string, toPath: path.string)
        }
        #expect(throws: SecretError.self) { try restore() }
        #expect(try other.store.find().records.isEmpty)
        #expect(try Set(FileManager.default.contentsOfDirectory(atPath: elsewhere.string)).isSubset(of: ["db"]))
        let names = try FileManager.default.contentsOfDirectory(atPath: backup.path.string).sorted()
        #expect(names == ["keybag", "secrets.sqlite"])
    }

    /// What was altered in a backup is refused, the rest comes back.
    @Test(arguments: ["account", "value", "wrapped", "id", "modified", "generation", "accessibility"])
    func altered(_ column: String) throws {
        _ = try copy()
        try DatabaseQueue(path: path.string).write { database in
            let value = ["account": "'admin'", "modified": "7", "generation": "9", "accessibility": "3"][column]
            try database.execute(
                sql: "UPDATE secrets SET \(column) = \(value ?? "zeroblob(length(\(column)))") WHERE accessibility = 1")
        }
        let result = try restore()
        #expect(result.done == 1 && result.failures.count + result.withoutKey == 1)
        #expect(try other.store.find().records.map(\.name) == [.account("after-first-unlock")])
    }

    @Test func anotherBackup() throws {
        _ = try copy()
        let foreign = try Backup(at: other.root.appending("backup"), for: .backup)
        try foreign.makeKeybag(of: other.keybag, passphrase: secret(Self.phrase), iterations: 1_000)
        let keys = try Self.keys(of: foreign)
        let result = try other.store.restore(from: backup.directory, keys, replacing: true, isTrial: false)
        #expect(result.done == 0 && result.failures.count == 2)
    }
}
