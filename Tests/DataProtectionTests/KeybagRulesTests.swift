import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

/// Altered by somebody who has no key, but who can compute SHA-256.
@Suite("Rules for a keybag copy")
struct KeybagRulesTests {
    @Test("Both copies that break a rule are refused")
    func both() throws {
        let bag = try TestKeybag()
        let good = try StoredKeybag(of: bag)
        for rule in KeybagRule.all {
            try rule.broken(in: good).store(in: bag)
            expectError(rule.answer, rule.comment) { _ = try bag.reopened() }
            expectError(rule.answer, rule.comment) { try bag.unlock() }
        }
        #expect(bag.ringContents == [])
        #expect(try bag.attempts()?.failures == 0)
    }

    @Test("One copy that breaks a rule does not count, and is repaired", arguments: [0, 1])
    func one(copy: Int) throws {
        let bag = try TestKeybag()
        let good = try StoredKeybag(of: bag)
        for rule in KeybagRule.all where rule.answer == "keybagDamaged" {
            try rule.broken(in: good).store(in: bag, copies: [copy])
            let log = WarningLog()
            #expect(try Keybag(at: bag.directory, warn: log.append).uuid == bag.keybag.uuid, rule.comment)
            #expect(log.unusual == [.keybagCopyDamaged(bag.file("keybag.\(copy)"))], rule.comment)
            try bag.unlock()
            #expect(try bag.file("keybag.\(copy)").contents() == good.bytes, rule.comment)
        }
    }

    @Test("One copy of a newer version makes the keybag unsupported, and is left alone", arguments: [0, 1])
    func unsupported(copy: Int) throws {
        let bag = try TestKeybag()
        let good = try StoredKeybag(of: bag)
        for rule in KeybagRule.all where rule.answer == "unsupported" {
            let newer = rule.broken(in: good)
            try newer.store(in: bag, copies: [copy])
            expectError("unsupported", rule.comment) { _ = try bag.reopened() }
            expectError("unsupported", rule.comment) { try bag.unlock() }
            #expect(try bag.file("keybag.\(copy)").contents() == newer.bytes, rule.comment)
        }
        #expect(try bag.file("keybag.\(1 - copy)").contents() == good.bytes)
        #expect(bag.ringContents == [])
    }

    @Test("Iterations from 1,000 to 100,000,000 are read", arguments: [1_000, 100_000_000] as [UInt32])
    func iterations(count: UInt32) throws {
        let bag = try TestKeybag()
        var copy = try StoredKeybag(of: bag)
        copy.set(count, at: copy.slot(0) + 4)
        copy.finish()
        #expect(try KeybagCopy(decoding: copy.bytes).slots[0].iterations == Int(count))
    }

    @Test("Fewer than 600,000 iterations are refused before a passcode is tried")
    func weak() async {
        await #expect(processExitsWith: .success) {
            let bag = try TestKeybag()
            let attempts = try bag.file("attempts").contents()
            setenv("PROTECTFS_REFUSES_FEW_ITERATIONS", "yes", 1)
            let error = expectError("weakDerivation") { try bag.unlock() }
            #expect(error == .because(KeybagFailure.weakDerivation(bag.directory, iterations: TestKeybag.iterations)))
            #expect(
                try bag.file("attempts").contents() == attempts, "nothing was left that a guess can be tested against")
            #expect(try bag.keybag.state() == .beforeFirstUnlock)
        }
    }

    @Test("Entries of reserved kinds are kept, and not used", arguments: [2, 3, 255] as [UInt8])
    func reservedKinds(kind: UInt8) throws {
        let bag = try TestKeybag()
        try bag.rewriteAuthentically { copy in
            // An active key of class A beside the real one: only its kind makes it another thing.
            let added = copy.repeatEntry(.complete)
            copy.bytes[added] = kind
        }
        let keybag = try bag.reopened()
        let entries = try bag.keybag.file.load().copy.entries
        #expect(entries.map(\.kind) == [0, 0, 0, 0, 1, 1, kind])
        try keybag.unlock(passcode: secret(TestKeybag.passcode))
        #expect(try bag.payload(.unlocked)[1] == 3, "A, B and A of secrets, nothing else")
        try keybag.changePasscode(
            from: secret(TestKeybag.passcode), to: secret("new"), iterations: TestKeybag.iterations)
        #expect(try bag.keybag.file.load().copy.entries == entries)
    }

    @Test("Class keys of secrets: one active a class, of their two classes, under the keybag key alone")
    func secretsKind() throws {
        let bag = try TestKeybag()
        var copy = try KeybagCopy(decoding: StoredKeybag(of: bag).bytes)
        let first = try #require(copy.entries.firstIndex { $0.isOf(.secrets) })
        #expect(copy.entries(of: .secrets).map(\.rawClass) == [1, 3])
        func isRefused(_ change: (inout KeybagCopy) throws -> Void) throws -> Bool {
            var altered = copy
            try change(&altered)
            let key = try KeybagKey.random(for: copy.uuid)
            return (try? KeybagCopy(decoding: altered.encoded(under: key))) == nil
        }
        #expect(try !isRefused { _ in })
        #expect(try !isRefused { $0.entries.removeAll { $0.isOf(.secrets) } }, "as the first versions made them")
        #expect(try isRefused { $0.entries.remove(at: first) })
        #expect(try isRefused { $0.entries[first].state = .retired })
        #expect(try isRefused { $0.entries[first].wrappedByDevice = $0.entries[first].wrapped })
        copy.entries[first].publicHalf = copy.active(.completeUnlessOpen).publicHalf
        #expect(try isRefused { _ in })
    }

    @Test("A decoded copy encodes to the same bytes")
    func roundTrip() throws {
        let bag = try TestKeybag()
        try bag.rewriteAuthentically { copy in
            copy.addRetired(.complete, 7)
            let b = copy.addRetired(.completeUnlessOpen, .max)
            copy.set([UInt8](repeating: 0, count: 64), at: b + 136)
            copy.addRetired(.none, 3)
            copy.set(UInt64(1) << 63 - 1, at: StoredKeybag.Field.sequence)
        }
        let loaded = try bag.keybag.file.load()
        let key = try bag.keybag.openWithPasscode(secret(TestKeybag.passcode), loaded)
        #expect(try loaded.copy.encoded(under: key) == loaded.bytes)
    }
}
