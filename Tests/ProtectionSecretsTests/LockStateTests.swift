import Foundation
import ProtectionKeys
import Testing

@testable import DataProtection
@testable import ProtectionSecrets

/// In which lock states a secret can be read, changed and added: this process, and others.
@Suite struct LockStateTests {
    private static let marks: [ProtectionState: [SecretAccessibility: Bool]] = [
        .unlocked: [
            .whenUnlocked: true, .whenUnlockedThisDeviceOnly: true, .afterFirstUnlock: true,
            .afterFirstUnlockThisDeviceOnly: true,
        ],
        .locked: [
            .whenUnlocked: false, .whenUnlockedThisDeviceOnly: false, .afterFirstUnlock: true,
            .afterFirstUnlockThisDeviceOnly: true,
        ],
        .beforeFirstUnlock: [
            .whenUnlocked: false, .whenUnlockedThisDeviceOnly: false, .afterFirstUnlock: false,
            .afterFirstUnlockThisDeviceOnly: false,
        ],
    ]

    @Test(arguments: [ProtectionState.unlocked, .locked, .beforeFirstUnlock])
    func inSeveralProcesses(_ state: ProtectionState) throws {
        let bed = try SecretsBed()
        for accessibility in SecretAccessibility.allCases {
            try bed.store.add(.account(accessibility.name), value: secret("a value"), accessibility: accessibility)
        }
        try bed.enter(state)
        let workers = try (0..<3).map { _ in try SecretsWorker.start(bed, "try", "service") }
        let expected = SecretAccessibility.allCases.map { accessibility in
            let mark = Self.marks[state]![accessibility]! ? "+" : "x"
            return "\(accessibility.name) \(mark) \(mark) \(mark)"
        }
        for worker in workers { #expect(try worker.lines() == expected) }
        // Names and attributes can be looked at in every state, and what is not wanted can be deleted.
        #expect(try bed.store.find().records.count >= 4)
        for accessibility in SecretAccessibility.allCases { try bed.store.delete(.account(accessibility.name)) }
    }

    /// What cannot be had is said to be locked, and since when; nothing was changed.
    @Test func theError() throws {
        let bed = try SecretsBed()
        let name = SecretName.account("kim")
        try bed.store.add(name, value: secret("one"))
        try bed.keybag.lock()
        do throws(SecretError) {
            try bed.store.set(name, value: secret("two"))
            Issue.record("it was written while locked")
        } catch {
            guard case .locked(name, .whenUnlocked, .locked, let since?) = error else {
                throw error
            }
            #expect(since.timeIntervalSince1970 > 1_700_000_000)
        }
        try bed.enter(.unlocked)
        #expect(try bed.store.text(name) == "one")
    }

    /// A lock between an item's wrap and its value does not matter; one that is made weaker needs both keys.
    @Test func changedWhileLocked() throws {
        let bed = try SecretsBed()
        try bed.store.add(.account("kim"), value: secret("one"), accessibility: .afterFirstUnlock)
        try bed.keybag.lock()
        #expect(throws: SecretError.self) { try bed.store.setAccessibility(.whenUnlocked, of: .account("kim")) }
        try bed.store.setAccessibility(.afterFirstUnlockThisDeviceOnly, of: .account("kim"))
        #expect(try bed.store.text(.account("kim")) == "one")
    }

    /// What cannot be read now is not replaced either, whatever accessibility the new one is to get; deleting it is another matter.
    @Test(arguments: SecretAccessibility.allCases) func replacedWhileLocked(_ accessibility: SecretAccessibility) throws
    {
        let bed = try SecretsBed()
        let name = SecretName.account("kim")
        try bed.store.add(name, value: secret("one"))
        var exported: [UInt8] = []
        _ = try bed.store.export(.privateGroup) { exported += $0 }
        let text = String(decoding: exported, as: UTF8.self).replacing("when-unlocked", with: "after-first-unlock")
        try bed.keybag.lock()
        func expectLocked(_ body: () throws -> Void) {
            let error = #expect(throws: SecretError.self) { try body() }
            if case .locked? = error {} else { Issue.record("\(String(describing: error))") }
        }
        expectLocked { _ = try bed.store.set(name, value: secret("two"), accessibility: accessibility) }
        expectLocked { _ = try bed.store.update(name, value: secret("two"), accessibility: accessibility) }
        expectLocked {
            var rest = Array(text.utf8)[...]
            try bed.store.importSecrets(replacing: true) { buffer in
                let piece = rest.prefix(buffer.count)
                rest = rest.dropFirst(piece.count)
                buffer.copyBytes(from: piece)
                return piece.count
            }
        }
        try bed.enter(.unlocked)
        #expect(try bed.store.text(name) == "one")
        try bed.store.set(name, value: secret("two"), accessibility: accessibility)
        #expect(try bed.store.record(of: name)?.accessibility == accessibility)
    }

    /// A keybag that was made before there were secrets gets their class keys at its next unlock.
    @Test func anOldKeybag() throws {
        let bed = try SecretsBed()
        try bed.keybag.open(passcode: secret(SecretsBed.passcode)).commit { copy in
            copy.entries.removeAll { $0.isOf(.secrets) }
        }
        #expect(try Keybag(at: bed.keybag.directory).file.load().copy.entries.count == 4)
        let store = try bed.another()
        #expect { try store.add(.account("kim"), value: secret("a")) } throws: {
            if case .needsUnlock? = $0 as? SecretError { true } else { false }
        }
        try bed.enter(.unlocked)
        try store.add(.account("kim"), value: secret("a"))
        #expect(try bed.store.text(.account("kim")) == "a")
        let copy = try Keybag(at: bed.keybag.directory).file.load().copy
        #expect(copy.entries(of: .secrets).count == 2)
        #expect(copy.entries(of: .files).count == 4)
    }

    /// Of this device only: another device key opens nothing, and the others go on.
    @Test func anotherDevice() throws {
        let bed = try SecretsBed()
        for accessibility in SecretAccessibility.allCases {
            try bed.store.add(.account(accessibility.name), value: secret("a value"), accessibility: accessibility)
        }
        let code = try RecoveryCode.random()
        try bed.keybag.open(passcode: secret(SecretsBed.passcode)).setRecoveryCode(code, iterations: 1_000)
        try FileManager.default.removeItem(atPath: bed.root.appending("device-key").string)
        setenv("XDG_STATE_HOME", getenv("XDG_STATE_HOME"), 1)
        try Keybag(at: bed.keybag.directory).open(recoveryCode: code).recover(
            passcode: secret(SecretsBed.passcode), 1_000, recoveryCode: try RecoveryCode.random(), 1_000)
        let keybag = try Keybag(at: bed.keybag.directory)
        try keybag.unlock(passcode: secret(SecretsBed.passcode))
        let store = try SecretStore(appID: SecretsBed.appID, keybag: keybag)
        for accessibility in SecretAccessibility.allCases {
            let name = SecretName.account(accessibility.name)
            if accessibility.isThisDeviceOnly {
                #expect(throws: SecretError.self) { try store.text(name) }
                try store.set(name, value: secret("anew"))
                #expect(try store.text(name) == "anew")
            } else {
                #expect(try store.text(name) == "a value")
            }
        }
    }
}
