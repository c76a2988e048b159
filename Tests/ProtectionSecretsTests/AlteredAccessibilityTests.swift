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
        let expected = altered.isThisDeviceOnly ? SecretAccessibility.whenUnlockedThisDeviceOnly : .whenUnlocked
        #expect(try bed.store.set(name, value: secret("new")).accessibility == expected)
        #expect(try bed.store.text(name) == "new")
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
        #expect(try bed.store.set(name, value: secret("new")).accessibility == accessibility)
        #expect(try bed.store.update(name, value: secret("newer")).accessibility == accessibility)
    }
}
