import Foundation
import GRDB
import ProtectionKeys
import Testing

@testable import DataProtection
@testable import ProtectionSecrets

/// New class keys: secrets open all the time, and are under the new ones in the end.
@Suite struct SecretRotationTests {
    private static func fill(_ bed: SecretsBed) throws {
        for accessibility in SecretAccessibility.allCases {
            try bed.store.add(
                .account(accessibility.name), value: secret(accessibility.name), accessibility: accessibility)
        }
    }

    private static func expectAll(_ store: SecretStore) throws {
        for accessibility in SecretAccessibility.allCases {
            #expect(try store.text(.account(accessibility.name)) == accessibility.name)
        }
    }

    @Test func rewrapAndForget() throws {
        let bed = try SecretsBed()
        try Self.fill(bed)
        let generation = try bed.rotate()
        try Self.expectAll(bed.store)
        // New ones are under the new keys at once.
        try bed.store.add(.account("new"), value: secret("new"))
        let result = try bed.store.rewrap()
        #expect(result.rewrapped == 4 && result.failures.isEmpty)
        #expect(try bed.store.rewrap().rewrapped == 0)
        let opened = try bed.keybag.open(passcode: secret(SecretsBed.passcode))
        try opened.forgetRetiredKeys(before: generation, secretsAreRewrapped: true)
        #expect(bed.keybag.retiredGenerations == [])
        try Self.expectAll(bed.store)
        try Self.expectAll(try bed.another())
        try bed.enter(.locked)
        #expect(try bed.store.text(.account("after-first-unlock")) == "after-first-unlock")
    }

    /// Who forgets the keys of files has not looked at secrets: their keys stay.
    @Test func notForgottenByOversight() throws {
        let bed = try SecretsBed()
        try Self.fill(bed)
        let generation = try bed.rotate()
        try bed.keybag.open(passcode: secret(SecretsBed.passcode)).forgetRetiredKeys(before: generation)
        #expect(bed.keybag.retiredGenerations == [generation - 1])
        try Self.expectAll(bed.store)
        let old = try bed.keybag.file.load().copy.entries.filter { $0.state == .retired }
        #expect(old.count == 2 && old.allSatisfy { $0.isOf(.secrets) })
    }

    @Test("An older keybag that was put back stores nothing new under the retired keys")
    func olderPutBack() throws {
        let bed = try SecretsBed()
        try Self.fill(bed)
        let names = KeybagFile.names.map { bed.keybag.directory.appending($0).string }
        let old = try names.map { try Data(contentsOf: URL(fileURLWithPath: $0)) }
        try bed.rotate()
        for (name, bytes) in zip(names, old) { try bytes.write(to: URL(fileURLWithPath: name)) }
        for store in [bed.store, try bed.another()] {
            for accessibility in SecretAccessibility.allCases {
                let error = #expect(throws: SecretError.self) {
                    try store.set(.account("n"), value: secret("new"), accessibility: accessibility)
                }
                #expect(error.map { "\($0)".contains("older copy was put back") } == true, "\(accessibility)")
            }
        }
        #expect(try bed.store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM secrets") } == 4)
    }

    @Test(
        "A row that only says that it is under the active class key is not called current",
        arguments: SecretAccessibility.allCases)
    func forgedGeneration(_ accessibility: SecretAccessibility) throws {
        let bed = try SecretsBed()
        try bed.store.add(.account("a"), value: secret("a"), accessibility: accessibility)
        let generation = try bed.rotate()
        #expect(try bed.store.needingRewrap() == 1)
        try bed.store.write { try $0.execute(sql: "UPDATE secrets SET generation = ?", arguments: [generation]) }
        #expect(try bed.store.needingRewrap() == 1)
        #expect(try bed.store.rewrap().failures.count == 1)
    }

    /// Locked: those that need no more than the first unlock are done, the others are named.
    @Test func whileLocked() throws {
        let bed = try SecretsBed()
        try Self.fill(bed)
        try bed.rotate()
        try bed.keybag.lock()
        let result = try bed.store.rewrap()
        #expect(result.rewrapped == 2)
        #expect(result.failures.count == 2)
        try bed.enter(.unlocked)
        #expect(try bed.store.rewrap().rewrapped == 2)
        try Self.expectAll(bed.store)
    }

    /// Rotated in between, by another process: a store that knows the old keybag wraps under the new one.
    @Test func anotherProcessRotates() throws {
        let bed = try SecretsBed()
        let store = try bed.another()
        try Self.fill(bed)
        try bed.rotate()
        try store.set(.account("when-unlocked"), value: secret("when-unlocked"))
        #expect(try bed.store.rewrap().rewrapped == 3)
        try Self.expectAll(store)
    }

    /// A secret whose class key was forgotten says so, and can be set anew.
    @Test func keyLost() throws {
        let bed = try SecretsBed()
        try Self.fill(bed)
        let generation = try bed.rotate()
        let opened = try bed.keybag.open(passcode: secret(SecretsBed.passcode))
        try opened.forgetRetiredKeys(before: generation, secretsAreRewrapped: true)
        let name = SecretName.account("when-unlocked")
        #expect { try bed.store.text(name) } throws: { error in
            if case .keyLost(name, 1)? = error as? SecretError { true } else { false }
        }
        try bed.store.set(name, value: secret("anew"), accessibility: .whenUnlocked)
        #expect(try bed.store.text(name) == "anew")
    }

    /// Two devices rotate copies of one keybag and share a store: what the other one wrapped is not called damaged, and stays as it is.
    @Test func twoDevices() throws {
        let bed = try SecretsBed()
        func rows() throws -> [Row] { try bed.store.read { try Row.fetchAll($0, sql: "SELECT * FROM secrets") } }
        try Self.saveKeybag(of: bed, as: "second")
        try bed.rotate()
        try Self.fill(bed)
        try Self.saveKeybag(of: bed, as: "first")
        let stored = try rows()

        try Self.useKeybag("second", of: bed)
        for accessibility in SecretAccessibility.allCases {
            let name = SecretName.account(accessibility.name)
            #expect { try bed.store.text(name) } throws: {
                if case .keyLost(name, generation: 2)? = $0 as? SecretError { true } else { false }
            }
        }
        for rotation in 1...2 {
            try bed.rotate()
            for accessibility in SecretAccessibility.allCases {
                let name = SecretName.account(accessibility.name)
                #expect { try bed.store.text(name) } throws: { Self.isOfOther($0, name, accessibility) }
                guard !accessibility.isThisDeviceOnly else { continue }
                #expect { try bed.store.set(name, value: secret("new")) } throws: {
                    Self.isOfOther($0, name, accessibility)
                }
            }
            let result = try bed.store.rewrap()
            let others = result.failures.filter { if case .otherKey(_, generation: 2) = $0 { true } else { false } }
            #expect(result.rewrapped == 0 && others.count == 2, "rotation \(rotation): \(result)")
        }
        #expect(try bed.store.deleteDamaged() == 0)
        #expect(try rows() == stored, "nothing was changed")

        try Self.useKeybag("first", of: bed)
        try Self.expectAll(bed.store)
    }

    /// The device key takes part in the wrap of what is of this device only: of these it cannot be told which of the two is another one.
    private static func isOfOther(_ error: any Error, _ name: SecretName, _ accessibility: SecretAccessibility) -> Bool
    {
        switch error as? SecretError {
        case .otherDevice(name)?: accessibility.isThisDeviceOnly
        case .otherKey(name, generation: 2)?: !accessibility.isThisDeviceOnly
        default: false
        }
    }

    private static func saveKeybag(of bed: SecretsBed, as copy: String) throws {
        for name in KeybagFile.names {
            try FileManager.default.copyItem(
                atPath: bed.keybag.directory.appending(name).string, toPath: bed.root.string + "/\(copy).\(name)")
        }
    }

    private static func useKeybag(_ copy: String, of bed: SecretsBed) throws {
        try bed.keybag.ring.evict(everything: true)
        for name in KeybagFile.names {
            let path = bed.keybag.directory.appending(name).string
            try FileManager.default.removeItem(atPath: path)
            try FileManager.default.copyItem(atPath: bed.root.string + "/\(copy).\(name)", toPath: path)
        }
        try bed.enter(.unlocked)
    }
}
