import Foundation
import GRDB
import ProtectionKeys
import Testing

@testable import DataProtection
@testable import ProtectionSecrets

/// A damaged secret takes no good copy out of a backup, in no lock state.
@Suite struct BackupVerificationTests {
    private let bed: SecretsBed
    private let other: SecretsBed
    private let backup: Backup
    private let strong = SecretName.account("when-unlocked")
    private let weak = SecretName.account("after-first-unlock")
    private static let phrase = "a passphrase for tests"

    init() throws {
        (bed, other) = (try SecretsBed(), try SecretsBed())
        try bed.store.add(strong, value: secret("good"))
        try bed.store.add(weak, value: secret("weak"), accessibility: .afterFirstUnlock)
        backup = try Backup(at: bed.root.appending("backup"), for: .backup)
        try backup.makeKeybag(of: bed.keybag, passphrase: secret(Self.phrase), iterations: 1_000)
        _ = try copy()
    }

    private func copy(_ store: SecretStore? = nil, removingDeleted: Bool = false) throws -> SecretBackupResult {
        try (store ?? bed.store).copy(
            to: backup.directory, having: backup.secretsKeyNames(of: bed.keybag), removingDeleted: removingDeleted)
    }

    private func restore() throws -> SecretBackupResult {
        let opened = try backup.open(passphrase: secret(Self.phrase))
        guard let keys = SecretKeyList(encoded: try opened.secretsKeys()) else { throw CancellationError() }
        return try other.store.restore(from: backup.directory, keys, replacing: true, isTrial: false)
    }

    private func alter(_ change: String) throws {
        try bed.store.write {
            try $0.execute(sql: "UPDATE secrets SET \(change) WHERE account = 'when-unlocked'")
        }
    }

    private var names: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: backup.path.string).sorted() }
    }

    private static let earlier = "secrets.earlier.sqlite"
    /// Also says that it is of this device only, or of another class key, which a backup would leave out.
    private static let changes = [
        "value = zeroblob(length(value))", "wrapped = zeroblob(40)", "modified = 7", "accessibility = 2",
        "accessibility = 3", "generation = 9", "id = zeroblob(16)",
    ]

    @Test("While unlocked, a secret that does not open is named, and its copy stays", arguments: changes)
    func damaged(_ change: String) throws {
        try alter(change)
        let result = try copy()
        #expect(result.done == 1 && result.failures.count + result.withoutKey == 1)
        if let failure = result.failures.first { #expect("\(failure)".contains("when-unlocked")) }
        #expect(try names == ["keybag", "secrets.sqlite"])
        #expect(try restore().done == 2)
        #expect(try other.store.text(strong) == "good")
    }

    @Test(
        "While locked, the good copy that a damaged secret replaces is kept beside, and is restored",
        arguments: changes)
    func damagedWhileLocked(_ change: String) throws {
        try alter(change)
        try bed.enter(.locked)
        let result = try copy()
        // The class key of *after first unlock* is there: a row that says so is known not to open.
        #expect(result.failures.count == (change == "accessibility = 3" ? 1 : 0), "\(result.failures)")
        let restored = try restore()
        #expect(restored.done == 2 && restored.failures.isEmpty, "\(restored)")
        #expect(try other.store.text(strong) == "good")
        // It stays while nothing can be verified, and when the later copy proves to be damaged.
        for state in [ProtectionState.beforeFirstUnlock, .locked, .unlocked] {
            try bed.enter(state)
            _ = try copy()
            #expect(try restore().failures.isEmpty)
            #expect(try other.store.text(strong) == "good", "\(state)")
        }
        // The owner puts it right.
        try bed.store.set(strong, value: secret("new"), accessibility: .whenUnlocked)
        #expect(try copy().failures.isEmpty)
        #expect(try names == ["keybag", "secrets.sqlite"])
        #expect(try restore().restoredEarlier.isEmpty)
        #expect(try other.store.text(strong) == "new")
    }

    @Test("A value that was changed before the lock is in a backup of while locked")
    func honestChange() throws {
        try bed.store.set(strong, value: secret("new"))
        try bed.enter(.locked)
        #expect(try copy().done == 2)
        #expect(try names == ["keybag", Self.earlier, "secrets.sqlite"])
        let restored = try restore()
        #expect(restored.restoredEarlier.isEmpty)
        #expect(try other.store.text(strong) == "new")
        try bed.enter(.unlocked)
        #expect(try copy().done == 2)
        #expect(try names == ["keybag", "secrets.sqlite"], "verified now")
    }

    @Test("While locked, a copy whose class key is away is kept beside what replaces it, also if that opens")
    func olderRow() throws {
        try bed.store.set(strong, value: secret("old"), accessibility: .afterFirstUnlock)
        let row = "SELECT * FROM secrets WHERE account = 'when-unlocked'"
        let old = try #require(bed.store.read { try Row.fetchOne($0, sql: row) })
        try bed.store.set(strong, value: secret("good"), accessibility: .whenUnlocked)
        _ = try copy()
        try bed.enter(.locked)
        for _ in 0..<2 {
            try bed.store.write {
                try $0.execute(sql: "DELETE FROM secrets WHERE account = 'when-unlocked'")
                let values = old.map { _ in "?" }.joined(separator: ", ")
                let arguments = StatementArguments(old.databaseValues)
                try $0.execute(sql: "INSERT INTO secrets VALUES (\(values))", arguments: arguments)
            }
            #expect(try copy().done == 2)
            #expect(try names == ["keybag", Self.earlier, "secrets.sqlite"])
            let kept = try BackedUpSecrets(Backup.earlierSecretsName, in: backup.directory).rows
            #expect(kept.map(\.record.accessibility) == [SecretAccessibility.whenUnlocked])
        }
        try bed.enter(.unlocked)
        #expect(try copy().done == 2)
        #expect(try names == ["keybag", "secrets.sqlite"], "both open: the store says which one counts")
    }

    @Test("A deleted secret stays in a backup until the caller has deleted secrets removed")
    func deleted() throws {
        try bed.store.set(strong, value: secret("new"))
        try bed.enter(.locked)
        _ = try copy()
        try bed.store.delete(strong)
        #expect(try copy().done == 1)
        #expect(try names == ["keybag", Self.earlier, "secrets.sqlite"])
        #expect(try restore().done == 2)
        #expect(try other.store.text(strong) == "new")
        #expect(try copy(removingDeleted: true).done == 1)
        #expect(try names == ["keybag", "secrets.sqlite"])
        try other.store.delete(strong)
        #expect(try restore().leftOut == 1, "the other one, which is there already")
        #expect(try other.store.find().records.count == 1)
    }

    @Test("An empty store removes no secret from a backup", arguments: [false, true])
    func emptied(removingDeleted: Bool) throws {
        _ = try copy()
        try bed.enter(.locked)
        try bed.store.write { try $0.execute(sql: "DELETE FROM secrets") }
        for _ in 0..<2 {
            let result = try copy(removingDeleted: removingDeleted)
            #expect(result.done == 0 && result.onlyInBackup == 2)
        }
        #expect(try restore().done == 2)
    }

    @Test("A secret that is now limited to this device is removed from a backup")
    func thisDeviceOnly() throws {
        try bed.store.set(strong, value: secret("new"), accessibility: .whenUnlockedThisDeviceOnly)
        let result = try copy()
        #expect(result.done == 1 && result.leftOut == 1)
        #expect(try restore().done == 1)
    }

    @Test("While locked, a row that says so, and opens, removes no copy whose class key is away")
    func thisDeviceOnlyWhileLocked() throws {
        try bed.enter(.locked)
        try bed.store.delete(strong)
        try bed.store.add(strong, value: secret("forged"), accessibility: .afterFirstUnlockThisDeviceOnly)
        for removesDeleted in [false, true] {
            #expect(try copy(removingDeleted: removesDeleted).leftOut == 1)
            #expect(try names == ["keybag", "secrets.sqlite"])
        }
        #expect(try restore().done == 2)
        #expect(try other.store.text(strong) == "good")
    }

    @Test("A store that has lost a row without saying so replaces nothing")
    func lostRow() throws {
        let path = bed.store.path
        let queue = try DatabaseQueue(path: path.string)
        let page = try queue.writeWithoutTransaction { database in
            try database.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)")
            return try Int.fetchOne(database, sql: "SELECT rootpage FROM sqlite_schema WHERE name = 'secrets'")!
        }
        try queue.close()
        // A leaf of a table: type 0D, then the number of rows at offset 3. https://www.sqlite.org/fileformat2.html#b_tree_pages
        let file = try LowerFile(path, flags: O_RDWR)
        let start = UInt64(page - 1) * 4096
        try #require(try file.bytes(at: start, count: 5) == [0x0D, 0, 0, 0, 2])
        try file.write([1], at: start + 4)
        let store = try bed.another()
        #expect(throws: SecretError.self) { try copy(store) }
        #expect(try restore().done == 2)
    }

    @Test("A copy in the backup that is damaged is not taken for an empty one")
    func damagedCopy() throws {
        let copies = backup.path.appending(Backup.secretsName)
        try Data(repeating: 7, count: 8192).write(to: URL(fileURLWithPath: copies.string))
        let error = #expect(throws: SecretError.self) { try copy() }
        guard case .storeDamaged(copies, _)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: copies.string)) == Data(repeating: 7, count: 8192))
    }

    @Test("Nothing is written where the path of the backup leads by now")
    func swappedPath() throws {
        let moved = bed.root.appending("moved")
        let elsewhere = bed.root.appending("elsewhere")
        try FileManager.default.moveItem(atPath: backup.path.string, toPath: moved.string)
        try FileManager.default.createDirectory(atPath: elsewhere.string, withIntermediateDirectories: false)
        try FileManager.default.createSymbolicLink(
            atPath: backup.path.string, withDestinationPath: elsewhere.string)
        try bed.store.set(strong, value: secret("new"))
        #expect(try copy().done == 2)
        #expect(try FileManager.default.contentsOfDirectory(atPath: elsewhere.string).isEmpty)
        #expect(try restore().done == 2)
        #expect(try other.store.text(strong) == "new")
    }
}
