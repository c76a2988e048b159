import ProtectionFormat
import ProtectionKeys
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

@Suite("The two copies of a keybag")
struct KeybagCopiesTests {
    @Test("One copy with any byte flipped: the other one opens and repairs it", arguments: [0, 1])
    func flipOne(copy: Int) throws {
        let bag = try TestKeybag()
        let good = try StoredKeybag(of: bag)
        for offset in Effort.slice(of: good.bytes.indices) {
            var bad = good
            bad.bytes[offset] ^= 1 << UInt8(offset % 8)
            try bad.store(in: bag, copies: [copy])
            let log = WarningLog()
            let keybag = try Keybag(at: bag.directory, warn: log.append)
            #expect(log.unusual == [.keybagCopyDamaged(bag.file("keybag.\(copy)"))], "byte \(offset)")
            try keybag.unlock(passcode: secret(TestKeybag.passcode))
            #expect(try bag.file("keybag.\(copy)").contents() == good.bytes, "byte \(offset)")
        }
        #expect(try bag.directory.names() == ["attempts", "keybag.0", "keybag.1", "rings", "transition"])
    }

    @Test("Both copies with the same byte flipped are damaged, whichever it is")
    func flipBoth() throws {
        let bag = try TestKeybag()
        let good = try StoredKeybag(of: bag)
        for offset in Effort.slice(of: good.bytes.indices) {
            var bad = good
            bad.bytes[offset] ^= 1 << UInt8(offset % 8)
            try bad.store(in: bag)
            expectError("keybagDamaged", "byte \(offset)") { _ = try bag.reopened() }
            expectError("keybagDamaged", "byte \(offset)") { try bag.unlock() }
        }
        #expect(bag.ringContents == [])
        #expect(try bag.attempts()?.failures == 0, "no attempt is counted for a keybag that nobody can open")
    }

    @Test("Both copies damaged in different places are damaged")
    func flipEach() throws {
        let bag = try TestKeybag()
        let good = try StoredKeybag(of: bag)
        for offset in stride(from: 0, to: good.bytes.count, by: 13) {
            var (first, second) = (good, good)
            first.bytes[offset] ^= 0x80
            second.bytes[good.bytes.count - 1 - offset] ^= 0x01
            try first.store(in: bag, copies: [0])
            try second.store(in: bag, copies: [1])
            expectError("keybagDamaged") { _ = try bag.reopened() }
        }
    }

    @Test("One copy cut off at any length: the other one opens and repairs it", arguments: [0, 1])
    func truncateOne(copy: Int) throws {
        let bag = try TestKeybag()
        let good = try StoredKeybag(of: bag)
        for length in Effort.slice(of: 0..<good.bytes.count) {
            try StoredKeybag(Array(good.bytes.prefix(length))).store(in: bag, copies: [copy])
            let log = WarningLog()
            let keybag = try Keybag(at: bag.directory, warn: log.append)
            #expect(log.unusual == [.keybagCopyDamaged(bag.file("keybag.\(copy)"))], "\(length) bytes")
            try keybag.unlock(passcode: secret(TestKeybag.passcode))
            #expect(try bag.file("keybag.\(copy)").contents() == good.bytes, "\(length) bytes")
        }
    }

    @Test("Both copies cut off at any length are damaged")
    func truncateBoth() throws {
        let bag = try TestKeybag()
        let good = try StoredKeybag(of: bag)
        for length in Effort.slice(of: 0..<good.bytes.count) {
            try StoredKeybag(Array(good.bytes.prefix(length))).store(in: bag)
            expectError("keybagDamaged", "\(length) bytes") { _ = try bag.reopened() }
        }
    }

    @Test("Bytes behind the end are damage", arguments: [1, 64, 70_000])
    func appended(count: Int) throws {
        let bag = try TestKeybag()
        var bad = try StoredKeybag(of: bag)
        bad.bytes += [UInt8](repeating: 0, count: count)
        try bad.store(in: bag, copies: [1])
        #expect(try bag.reopened().uuid == bag.keybag.uuid)
        try bad.store(in: bag)
        expectError("keybagDamaged") { _ = try bag.reopened() }
    }

    @Test("One copy that is missing comes back at unlock, and is no damage", arguments: [0, 1])
    func missingOne(copy: Int) throws {
        let bag = try TestKeybag()
        let good = try StoredKeybag(of: bag)
        try bag.file("keybag.\(copy)").remove()
        try bag.reopened().unlock(passcode: secret(TestKeybag.passcode))
        #expect(try bag.file("keybag.\(copy)").contents() == good.bytes)
        #expect(try bag.file("keybag.\(copy)").mode() == 0o600)
        #expect(bag.warnings.unusual == [])
    }

    @Test("Both missing: not found")
    func missingBoth() throws {
        let bag = try TestKeybag()
        for copy in [0, 1] { try bag.file("keybag.\(copy)").remove() }
        expectError("keybagNotFound") { _ = try bag.reopened() }
        expectError("keybagNotFound") { try bag.unlock() }
    }

    @Test("Only copies that gave way to a restore are left: damaged, and restored or erased as such")
    func onlyKept() throws {
        let bag = try TestKeybag()
        try AtomicReplace.rename(bag.file("keybag.0"), to: bag.file("keybag.0.damaged"))
        try bag.file("keybag.1").remove()
        expectError("keybagDamaged") { _ = try bag.reopened() }
        #expect(try bag.keybag.file.usableUUID() == nil)
    }

    @Test("Something else in the place of one copy: the other one opens", arguments: [0, 1])
    func otherThing(copy: Int) throws {
        let bag = try TestKeybag()
        let path = bag.file("keybag.\(copy)")
        let good = try StoredKeybag(of: bag)
        try path.replaceByDirectory()
        #expect(try bag.reopened().uuid == bag.keybag.uuid)
        try bag.unlock()
        #expect(try bag.keybag.state() == .unlocked)
        #expect(bag.warnings.unusual.contains { $0.caseName == "keybagNotRepaired" })

        try path.remove()
        try path.makeSymbolicLink(to: bag.file("keybag.\(1 - copy)"))
        #expect(try bag.reopened().uuid == bag.keybag.uuid)
        try bag.unlock()
        #expect(try path.isRegularFile() && path.contents() == good.bytes)

        try path.remove()
        try path.makeFIFO()
        #expect(try bag.reopened().uuid == bag.keybag.uuid)
        try bag.unlock()
        #expect(try path.isRegularFile() && path.contents() == good.bytes)
    }

    @Test("The leftover file of a killed replacement is removed at unlock")
    func leftover() throws {
        let bag = try TestKeybag()
        try bag.file("keybag.new").overwrite([1, 2, 3])
        try bag.reopened().unlock(passcode: secret(TestKeybag.passcode))
        #expect(try bag.directory.names() == ["attempts", "keybag.0", "keybag.1", "rings", "transition"])
    }

    @Test(
        "The newer one is in force, whichever file it is in; unlocking brings the other one up to it",
        arguments: [0, 1])
    func newer(copy: Int) throws {
        let bag = try TestKeybag()
        let old = try StoredKeybag(of: bag)
        try bag.unlock()
        try bag.keybag.changePasscode(
            from: secret(TestKeybag.passcode), to: secret("a new one"), iterations: TestKeybag.iterations)
        let new = try StoredKeybag(of: bag)
        #expect(new.bytes != old.bytes)
        try old.store(in: bag, copies: [1 - copy])

        #expect(try bag.keybag.file.load().copy.sequence == 2)
        #expect(try bag.keybag.file.load().index == copy)
        expectError("wrongPasscode") { try bag.unlock() }
        try bag.unlock("a new one")
        for copy in [0, 1] { #expect(try bag.file("keybag.\(copy)").contents() == new.bytes) }
        #expect(bag.warnings.unusual == [])
    }

    @Test("Of two valid copies with one sequence the first is in force")
    func equalSequence() throws {
        let bag = try TestKeybag()
        var other = try StoredKeybag(of: bag)
        other.setPath(Array("/somewhere/else".utf8))
        other.finish()
        try other.store(in: bag, copies: [1])
        #expect(try bag.keybag.file.load().index == 0)
        try bag.unlock()
        #expect(try bag.file("keybag.1").contents() == bag.file("keybag.0").contents())
    }

    @Test("A keybag whose second copy cannot be repaired opens, and says so")
    func notRepaired() throws {
        let bag = try TestKeybag()
        try bag.file("keybag.1").replaceByDirectory()
        try bag.unlock()
        #expect(try bag.keybag.state() == .unlocked)
        #expect(bag.warnings.unusual.map(\.caseName) == ["keybagNotRepaired"])
    }
}
