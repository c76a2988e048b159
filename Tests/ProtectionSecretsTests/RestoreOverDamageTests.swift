import FoundationEssentials
import GRDB
import ProtectionKeys
import Testing

@testable import DataProtection
@testable import ProtectionSecrets

/// What errors about damaged and lost secrets tell people to do: put them back from a backup.
@Suite struct RestoreOverDamageTests {
    private let bed: SecretsBed
    private let backup: Backup
    private let name = SecretName.account("kim")
    private static let phrase = "a passphrase for tests"

    init() throws {
        bed = try SecretsBed()
        try bed.store.add(name, value: secret("good"))
        backup = try Backup(at: bed.root.appending("backup"), for: .backup)
        try backup.makeKeybag(of: bed.keybag, passphrase: secret(Self.phrase), iterations: 1_000)
        _ = try bed.store.copy(to: backup.directory, having: backup.secretsKeyNames(of: bed.keybag))
    }

    private func restore(replacing: Bool) throws -> SecretBackupResult {
        let opened = try backup.open(passphrase: secret(Self.phrase))
        guard let keys = SecretKeyList(encoded: try opened.secretsKeys()) else { throw CancellationError() }
        return try bed.store.restore(from: backup.directory, keys, replacing: replacing, isTrial: false)
    }

    private func expectRestored() throws {
        let refused = try restore(replacing: false)
        #expect(refused.done == 0 && refused.failures.count == 1)
        let restored = try restore(replacing: true)
        #expect(restored.done == 1 && restored.failures.isEmpty, "\(restored.failures)")
        #expect(try bed.store.text(name) == "good")
    }

    @Test(arguments: [
        "wrapped = zeroblob(40)", "value = zeroblob(64)", "modified = 7", "value = 'text'", "generation = 9",
    ])
    func altered(_ change: String) throws {
        try bed.store.write { try $0.execute(sql: "UPDATE secrets SET \(change)") }
        try expectRestored()
    }

    @Test func classKeyForgotten() throws {
        let generation = try bed.rotate()
        let opened = try bed.keybag.open(passcode: secret(SecretsBed.passcode))
        try opened.forgetRetiredKeys(before: generation, secretsAreRewrapped: true)
        try expectRestored()
    }

    @Test(
        "Where damage hides how strict a secret was, what is restored or imported opens only while unlocked",
        arguments: ["accessibility = 7", "accessibility = 3, value = zeroblob(64)", "wrapped = x'00'"])
    func isStrictAfterDamage(_ change: String) throws {
        let lax = SecretName.account("lax")
        try bed.store.add(lax, value: secret("old"), accessibility: .afterFirstUnlock)
        _ = try bed.store.copy(to: backup.directory, having: backup.secretsKeyNames(of: bed.keybag))
        var lines: [UInt8] = []
        _ = try bed.store.export(.privateGroup) { lines += $0 }
        for way in ["restore", "import"] {
            try bed.store.set(lax, value: secret("new"), accessibility: .whenUnlocked)
            try bed.store.write { try $0.execute(sql: "UPDATE secrets SET \(change) WHERE account = 'lax'") }
            if way == "restore" {
                #expect(try restore(replacing: true).done >= 1)
            } else {
                var rest = lines[...]
                _ = try bed.store.importSecrets(replacing: true) { buffer in
                    let part = rest.prefix(buffer.count)
                    rest = rest.dropFirst(part.count)
                    buffer.copyBytes(from: part)
                    return part.count
                }
            }
            #expect(try bed.store.text(lax) == "old", "\(way)")
            #expect(try bed.store.record(of: lax)?.accessibility == .whenUnlocked, "\(way)")
        }
    }

    @Test(
        "A restored secret is as strict as the one that it replaces and as the one in the backup",
        arguments: SecretAccessibility.allCases)
    func isAsStrictAsBoth(_ accessibility: SecretAccessibility) throws {
        // The backup has it as `when-unlocked`.
        try bed.store.set(name, value: secret("newer"), accessibility: accessibility)
        #expect(try restore(replacing: true).done == 1)
        let restored = try #require(try bed.store.record(of: name))
        let isThisDeviceOnly = accessibility.isThisDeviceOnly
        #expect(restored.accessibility == (isThisDeviceOnly ? .whenUnlockedThisDeviceOnly : .whenUnlocked))
        #expect(try bed.store.text(name) == "good")
    }
}
