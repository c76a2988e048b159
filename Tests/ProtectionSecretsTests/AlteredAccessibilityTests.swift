import FoundationEssentials
import GRDB
import ProtectionKeys
import Testing

@testable import DataProtection
@testable import ProtectionSecrets

/// Nobody has authenticated the accessibility of a row that was not opened: who alters it must not have the next value stored under it.
@Suite struct AlteredAccessibilityTests {
    private let bed: SecretsBed
    private let name = SecretName.account("kim")

    init() throws { bed = try SecretsBed() }

    private func store(_ accessibility: SecretAccessibility, alteredTo other: SecretAccessibility) throws {
        let record = try bed.store.add(name, value: secret("old"), accessibility: accessibility)
        try bed.store.write {
            try $0.execute(
                sql: "UPDATE secrets SET accessibility = ? WHERE id = ?",
                arguments: [Int64(other.rawValue), Data(record.id)])
        }
    }

    private static let pairs = SecretAccessibility.allCases.flatMap { first in
        SecretAccessibility.allCases.filter { $0 != first }.map { (first, $0) }
    }

    @Test(arguments: pairs) func set(_ accessibility: SecretAccessibility, _ altered: SecretAccessibility) throws {
        try store(accessibility, alteredTo: altered)
        let expected = accessibility.isThisDeviceOnly ? SecretAccessibility.whenUnlockedThisDeviceOnly : .whenUnlocked
        #expect(try bed.store.set(name, value: secret("new")).accessibility == expected)
        #expect(try bed.store.text(name) == "new")
    }

    /// Where nothing shows any more whether a secret was of this device only, `set` takes no row's word for it that it was not.
    @Test(arguments: [
        "accessibility = 1, value = zeroblob(64)", "accessibility = 3, wrapped = zeroblob(40)",
        "accessibility = 1, generation = 9", "accessibility = 9", "accessibility = 1, modified = 7",
    ])
    func beyondRecognition(_ change: String) throws {
        try bed.store.add(name, value: secret("old"), accessibility: .whenUnlockedThisDeviceOnly)
        try bed.store.write { try $0.execute(sql: "UPDATE secrets SET \(change)") }
        let before = try bed.store.read { try Row.fetchOne($0, sql: "SELECT * FROM secrets") }
        #expect {
            try bed.store.set(name, value: secret("new"))
        } throws: {
            ($0 as? SecretError)?.leavesNoValue == true
        }
        #expect(try bed.store.read { try Row.fetchOne($0, sql: "SELECT * FROM secrets") } == before)
        // Whoever says which one it is to be replaces it.
        try bed.store.set(name, value: secret("new"), accessibility: .whenUnlocked)
        #expect(try bed.store.text(name) == "new")
    }

    /// The strongest accessibility is believed without proof.
    @Test func saysThisDeviceOnly() throws {
        try bed.store.add(name, value: secret("old"))
        try bed.store.write { try $0.execute(sql: "UPDATE secrets SET accessibility = 4, wrapped = zeroblob(40)") }
        let stored = try bed.store.set(name, value: secret("new"))
        #expect(stored.accessibility == .whenUnlockedThisDeviceOnly)
    }

    /// While locked it cannot be tried whether a secret was when unlocked.
    @Test func alteredAndLocked() throws {
        try store(.whenUnlockedThisDeviceOnly, alteredTo: .afterFirstUnlock)
        try bed.keybag.lock()
        #expect {
            try bed.store.set(name, value: secret("new"))
        } throws: {
            if case .locked? = $0 as? SecretError { true } else { false }
        }
        try bed.enter(.unlocked)
        #expect(try bed.store.set(name, value: secret("new")).accessibility == .whenUnlockedThisDeviceOnly)
    }

    @Test(arguments: pairs) func update(_ accessibility: SecretAccessibility, _ altered: SecretAccessibility) throws {
        try store(accessibility, alteredTo: altered)
        #expect {
            try bed.store.update(name, value: secret("new"))
        } throws: {
            ($0 as? SecretError)?.leavesNoValue == true
        }
        // Whoever says which one it is to be needs no word of the row's.
        try bed.store.update(name, value: secret("new"), accessibility: .afterFirstUnlock)
        #expect(try bed.store.text(name) == "new")
    }

    @Test(arguments: SecretAccessibility.allCases) func unaltered(_ accessibility: SecretAccessibility) throws {
        try bed.store.add(name, value: secret("old"), accessibility: accessibility)
        #expect(try bed.store.set(name, value: secret("old")).accessibility == accessibility)
        #expect(try bed.store.update(name, value: secret("newer")).accessibility == accessibility)
    }

    /// A process of the same user has the class key of *after first unlock* while locked: what it adds opens like any other secret.
    @Test func planted() throws {
        try bed.store.add(name, value: secret("old"))
        try bed.keybag.lock()
        try bed.store.delete(name)
        try bed.store.add(name, value: secret("planted"), accessibility: .afterFirstUnlock)
        #expect {
            try bed.store.set(name, value: secret("new"))
        } throws: {
            if case .locked? = $0 as? SecretError { true } else { false }
        }
        try bed.enter(.unlocked)
        #expect(try bed.store.set(name, value: secret("new")).accessibility == .whenUnlocked)
        try bed.keybag.lock()
        #expect(throws: SecretError.self) { try bed.store.text(name) }
    }

    @Test(arguments: SecretAccessibility.allCases) func setWithANewValue(_ accessibility: SecretAccessibility) throws {
        try bed.store.add(name, value: secret("old"), accessibility: accessibility)
        let expected =
            accessibility.isThisDeviceOnly ? SecretAccessibility.whenUnlockedThisDeviceOnly : .whenUnlocked
        #expect(try bed.store.set(name, value: secret("new")).accessibility == expected)
        let given = try bed.store.set(name, value: secret("newer"), accessibility: accessibility)
        #expect(given.accessibility == accessibility)
    }
}
