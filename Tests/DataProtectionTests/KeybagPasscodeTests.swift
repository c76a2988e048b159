import KernelKeyring
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

@Suite("Changing the passcode")
struct KeybagPasscodeTests {
    @Test("The new one opens, the old one does not, and all class keys stay")
    func change() throws {
        let bag = try TestKeybag(state: .unlocked)
        let before = try bag.keybag.file.load().copy
        try bag.changePasscode(to: "new")
        #expect(try bag.keybag.state() == .unlocked)
        try bag.keybag.evictEverything()

        let error = expectError("wrongPasscode") { try bag.unlock() }
        #expect(
            error == .because(KeybagFailure.wrongPasscode(keybag: bag.directory, failures: 1, retryAfter: .seconds(0))))
        #expect(bag.ringContents == [])
        try bag.unlock("new")
        #expect(try bag.keybag.state() == .unlocked)

        let after = try bag.keybag.file.load().copy
        #expect(after.entries == before.entries)
        #expect(after.uuid == before.uuid && after.deviceID == before.deviceID && after.devicePath == before.devicePath)
        #expect(after.sequence == before.sequence + 1)
        #expect(after.slots.count == 1)
    }

    @Test("Takes a new salt, and the number of iterations that is asked for")
    func saltAndCost() throws {
        let bag = try TestKeybag(state: .unlocked)
        let before = try bag.keybag.file.load().copy.slots[0]
        try bag.changePasscode(to: TestKeybag.passcode, iterations: 2_000)
        let after = try bag.keybag.file.load().copy.slots[0]
        #expect(after.salt != before.salt)
        #expect(after.wrapped != before.wrapped)
        #expect(after.iterations == 2_000)
        try bag.unlock()
    }

    @Test("Without a given number it costs 600,000 iterations or more")
    func calibrated() throws {
        let bag = try TestKeybag(state: .unlocked)
        try bag.keybag.changePasscode(from: secret(TestKeybag.passcode), to: secret("new"))
        #expect(try bag.keybag.file.load().copy.slots[0].iterations >= 600_000)
        try bag.unlock("new")
    }

    @Test("No byte of the old slot is left in any file of the directory")
    func noOldSlot() throws {
        let bag = try TestKeybag(state: .unlocked)
        let old = try bag.keybag.file.load().copy.slots[0]
        #expect(try bag.files(holding: old.wrapped.bytes) == ["keybag.0", "keybag.1"])
        try bag.changePasscode(to: "new")
        #expect(try bag.files(holding: old.wrapped.bytes) == [])
        #expect(try bag.files(holding: old.salt) == [])
        let new = try bag.keybag.file.load().copy.slots[0]
        #expect(try bag.files(holding: new.wrapped.bytes) == ["keybag.0", "keybag.1"])
        #expect(try bag.directory.names() == ["attempts", "keybag.0", "keybag.1", "rings", "transition"])
        #expect(try bag.file("keybag.0").contents() == bag.file("keybag.1").contents())
    }

    @Test("Needs the keybag to be unlocked", arguments: [ProtectionState.beforeFirstUnlock, .locked])
    func needsUnlocked(state: ProtectionState) throws {
        let bag = try TestKeybag(state: state)
        let before = try bag.file("keybag.0").contents()
        let error = expectError("locked") { try bag.changePasscode(to: "new") }
        guard case .because(KeybagFailure.locked(let path, _, .changePasscode, state: let told, since: _))? = error
        else {
            Issue.record("another operation: \(String(describing: error))")
            return
        }
        #expect(path == bag.directory && told == state)
        #expect(try bag.file("keybag.0").contents() == before)
        #expect(try bag.attempts()?.failures == 0)
    }

    @Test("Needs the old one: a wrong one is counted, and nothing changes")
    func wrong() throws {
        let bag = try TestKeybag(state: .unlocked)
        let before = try bag.file("keybag.0").contents()
        for failures in 1...5 {
            let error = expectError("wrongPasscode") { try bag.changePasscode(from: "wrong \(failures)", to: "new") }
            let retryAfter = failures == 5 ? 60 : 0
            #expect(
                error
                    == .because(
                        KeybagFailure.wrongPasscode(
                            keybag: bag.directory, failures: failures, retryAfter: .seconds(retryAfter))))
        }
        expectError("throttled") { try bag.changePasscode(to: "new") }
        for copy in [0, 1] { #expect(try bag.file("keybag.\(copy)").contents() == before) }
        #expect(try bag.keybag.state() == .unlocked)
    }

    @Test("Refuses a new one that is empty or longer than 1,024 bytes, before anything else", arguments: [0, 1025])
    func unusable(count: Int) throws {
        let bag = try TestKeybag(state: .unlocked)
        let new = [UInt8](repeating: 7, count: count)
        expectError("passcodeUnusable") {
            try bag.keybag.changePasscode(from: secret("wrong"), to: secret(new), iterations: 1000)
        }
        #expect(try bag.attempts()?.failures == 0)
    }

    @Test("Again and again works")
    func repeatedly() throws {
        let bag = try TestKeybag(state: .unlocked)
        for number in 1...6 {
            try bag.changePasscode(from: number == 1 ? TestKeybag.passcode : "\(number - 1)", to: "\(number)")
        }
        #expect(try bag.keybag.file.load().copy.sequence == 7)
        expectError("wrongPasscode") { try bag.unlock("5") }
        try bag.unlock("6")
    }

    @Test("Is seen by a handle that opened the keybag before")
    func seenElsewhere() throws {
        let bag = try TestKeybag(state: .unlocked)
        let early = try bag.reopened()
        try bag.changePasscode(to: "new")
        expectError("wrongPasscode") { try early.unlock(passcode: secret(TestKeybag.passcode)) }
        try early.unlock(passcode: secret("new"))
    }

    @Test("Repairs a damaged copy, and keeps nothing of it", arguments: [0, 1])
    func damagedCopy(copy: Int) throws {
        let bag = try TestKeybag(state: .unlocked)
        let old = try bag.keybag.file.load().copy.slots[0]
        var bytes = try bag.file("keybag.\(copy)").contents()
        bytes[20] ^= 1
        try bag.file("keybag.\(copy)").overwrite(bytes)
        try bag.changePasscode(to: "new")
        #expect(try bag.file("keybag.0").contents() == bag.file("keybag.1").contents())
        #expect(try bag.files(holding: old.wrapped.bytes) == [])
    }

    @Test("One that cannot be stored is not made")
    func cannotStore() throws {
        let bag = try TestKeybag(state: .unlocked)
        let before = try bag.file("keybag.0").contents()
        // A directory that is not empty can be neither unlinked nor replaced.
        try OwnDirectory.make(bag.file("keybag.new").appending("inside"))
        expectError("system") { try bag.changePasscode(to: "new") }
        for copy in [0, 1] { #expect(try bag.file("keybag.\(copy)").contents() == before) }
        try bag.unlock()
    }

    @Test("Replaces the copy in force last: while the other one cannot be replaced, nothing has changed")
    func copyInForceLast() throws {
        let bag = try TestKeybag(state: .unlocked)
        let before = try bag.file("keybag.0").contents()
        try bag.file("keybag.1").replaceByDirectory()
        expectError("system") { try bag.changePasscode(to: "new") }
        #expect(try bag.file("keybag.0").contents() == before)
        try bag.unlock()
    }

    @Test("Two at the same time: one of the new ones opens, and both copies are its")
    func concurrently() async throws {
        let bag = try TestKeybag(state: .unlocked)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for new in ["left", "right"] {
                group.addTask {
                    let keybag = try bag.reopened()
                    do {
                        try keybag.changePasscode(
                            from: secret(TestKeybag.passcode), to: secret(new), iterations: 1000)
                    } catch DataProtectionError.because(KeybagFailure.wrongPasscode) {
                        // The other one was quicker.
                    } catch DataProtectionError.busy {
                        // Only a little.
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try bag.file("keybag.0").contents() == bag.file("keybag.1").contents())
        #expect(try bag.opens(with: "left") || bag.opens(with: "right"))
        expectError("wrongPasscode") { try bag.unlock() }
    }
}

extension TestKeybag {
    /// Changes the passcode at little cost.
    func changePasscode(from current: String = passcode, to new: String, iterations: Int = iterations) throws {
        try keybag.changePasscode(from: secret(current), to: secret(new), iterations: iterations)
    }

    /// The files of the keybag's directory that hold `bytes` anywhere.
    func files(holding bytes: [UInt8]) throws -> [String] {
        try directory.names().filter { name in
            let contents = try file(name).contents()
            guard contents.count >= bytes.count else { return false }
            return (0...contents.count - bytes.count).contains { contents[$0...].starts(with: bytes) }
        }
    }
}
