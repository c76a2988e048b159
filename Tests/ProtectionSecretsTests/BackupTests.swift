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
        try bed.store.copy(to: path, having: backup.secretsKeyNames(of: bed.keybag))
    }

    private struct NoKeys: Error {}

    private static func keys(of backup: Backup) throws -> SecretKeyList {
        let opened = try backup.open(passphrase: secret(phrase))
        guard let keys = SecretKeyList(encoded: try opened.secretsKeys()) else { throw NoKeys() }
        return keys
    }

    private func restore(replacing: Bool = false, isTrial: Bool = false) throws -> SecretBackupResult {
        let keys = try Self.keys(of: backup)
        return try other.store.restore(from: path, keys, replacing: replacing, isTrial: isTrial)
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

    /// New class keys that the backup has not got: what is under them is not copied for nothing.
    @Test func rotated() throws {
        try bed.rotate()
        #expect(try copy().done == 2)
        _ = try bed.store.rewrap()
        let without = try copy()
        #expect(without.done == 0 && without.withoutKey == 2)
        try backup.renewKeybag(of: bed.keybag, passphrase: secret(Self.phrase), iterations: 1_000)
        #expect(try copy().done == 2)
        #expect(try restore().done == 2)
        #expect(try text(.whenUnlocked) == "when-unlocked")
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
        let result = try other.store.restore(from: path, keys, replacing: true, isTrial: false)
        #expect(result.done == 0 && result.failures.count == 2)
    }
}
