import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

@Suite("Recovery")
struct KeybagRecoveryTests {
    /// A keybag with a recovery code and a file of every class.
    private final class Bed {
        let files: FileTestBed
        let code: String
        var bag: TestKeybag { files.bag }
        let paths: [FilePath]

        init() throws {
            files = try FileTestBed()
            code = try files.bag.makeRecoveryCode().shown()
            paths = try ProtectionClass.allCases.map { [files] in
                try files.makeWhole($0.shortName, $0, Array($0.shortName.utf8))
            }
            try files.enter(.beforeFirstUnlock)
        }

        func recover(passcode: String = "new") throws -> String {
            try bag.recover(with: recoveryCode(code), passcode: passcode).shown()
        }

        /// Everything opens with `passcode`, and `code` would open the keybag again; nothing older does.
        func expectRecovered(passcode: String, code new: String) throws {
            expectError("wrongPasscode") { try bag.unlock() }
            #expect(try !bag.opens(with: recoveryCode(code)), "the old code is spent")
            try bag.unlock(passcode)
            #expect(try bag.opens(with: recoveryCode(new)))
            for (path, protectionClass) in zip(paths, ProtectionClass.allCases) {
                #expect(try files.read(path) == Array(protectionClass.shortName.utf8))
            }
            #expect(try bag.file("keybag.0").contents() == bag.file("keybag.1").contents())
            #expect(bag.warnings.unusual == [])
        }
    }

    @Test("A keybag can be made with a code")
    func created() throws {
        let scratch = ScratchDirectory()
        let code = try RecoveryCode.random()
        let keybag = try Keybag.create(
            at: scratch.path.appending("keybag"), passcode: secret("p"), recoveryCode: code)
        #expect(try keybag.hasRecoveryCode && keybag.status().hasRecoveryCode)
        _ = try keybag.open(recoveryCode: code)
        let slot = try #require(keybag.file.load().copy.slot(.recoveryCode))
        #expect(slot.iterations == 600_000)
    }

    @Test("600,000 iterations are written")
    func iterations() throws {
        let bag = try TestKeybag()
        let code = try RecoveryCode.random()
        try bag.keybag.open(passcode: secret(TestKeybag.passcode)).setRecoveryCode(code)
        #expect(try bag.keybag.file.load().copy.slot(.recoveryCode)?.iterations == 600_000)
        let new = try RecoveryCode.random()
        try bag.keybag.open(recoveryCode: code).recover(passcode: secret("new"), recoveryCode: new)
        let copy = try bag.keybag.file.load().copy
        #expect(copy.slot(.recoveryCode)?.iterations == 600_000)
        #expect(try #require(copy.slot(.passcode)).iterations >= 600_000)
        #expect(try bag.opens(with: new))
    }

    @Test("Without a code there is nothing to recover with")
    func none() throws {
        let bag = try TestKeybag()
        #expect(try !bag.keybag.hasRecoveryCode && !bag.keybag.status().hasRecoveryCode)
        let error = expectError("noRecoveryCode") { _ = try bag.keybag.open(recoveryCode: RecoveryCode.random()) }
        #expect(error == .because(KeybagFailure.noRecoveryCode(bag.directory)))
    }

    @Test("The passcode forgotten, and throttled: the code sets a new one at once")
    func forgotten() throws {
        let bed = try Bed()
        try bed.bag.guessWrongly(times: 5)
        expectError("throttled") { try bed.bag.unlock() }
        let new = try bed.recover()
        #expect(try bed.bag.attemptSectors().map { $0?.failures } == [0, 0])
        #expect(try bed.bag.attemptSectors().map { $0?.guessTag } == [nil, nil])
        #expect(bed.bag.ringContents == [], "nothing is unlocked by it")
        try bed.expectRecovered(passcode: "new", code: new)
        #expect(try bed.bag.keybag.file.load().copy.devicePath == Array(bed.bag.deviceKey.string.utf8))
    }

    @Test("The device key deleted: other device for the passcode, and the code opens")
    func deviceKeyDeleted() throws {
        let bed = try Bed()
        try bed.bag.deviceKey.remove()
        let attempts = try bed.bag.file("attempts").contents()
        expectError("otherDevice") { try bed.bag.unlock() }
        #expect(try bed.bag.file("attempts").contents() == attempts)
        let new = try bed.recover()
        try bed.expectRecovered(passcode: "new", code: new)
        let copy = try bed.bag.keybag.file.load().copy
        #expect(copy.devicePath == Array(Locations.deviceKey.string.utf8))
        #expect(!OwnDirectory.exists(bed.bag.deviceKey))
    }

    @Test("Another machine: other device, no attempt counted, and the code binds the keybag to this one")
    func otherMachine() throws {
        let bed = try Bed()
        let before = try bed.bag.keybag.file.load().copy
        let attempts = try bed.bag.file("attempts").contents()
        try bed.bag.deviceKey.overwrite([UInt8](repeating: 7, count: 32))
        for passcode in [TestKeybag.passcode, "wrong"] { expectError("otherDevice") { try bed.bag.unlock(passcode) } }
        #expect(try bed.bag.file("attempts").contents() == attempts, "byte for byte")
        let new = try bed.recover()

        // Before an unlock: D opens by this machine's device key, and B's public key is vouched for by it.
        let reopened = try bed.bag.reopened()
        let device = try ProtectedFile.open(bed.files.path("none"), keybag: reopened)
        #expect(try device.bytes(at: 0, count: 10) == Array("none".utf8))
        try ProtectedFile.open(bed.files.path("b"), .readWrite, create: .completeUnlessOpen, keybag: reopened).close()
        try bed.expectRecovered(passcode: "new", code: new)
        let after = try bed.bag.keybag.file.load().copy
        #expect(after.deviceID != before.deviceID && after.uuid == before.uuid)
        #expect(after.entries.map(\.id) == before.entries.map(\.id), "the class keys are the same")
        #expect(try bed.bag.deviceKey.contents() == [UInt8](repeating: 7, count: 32), "nobody's key is overwritten")
    }

    @Test("A device key that cannot be used is no reason not to recover")
    func unusableDeviceKey() throws {
        let bed = try Bed()
        try bed.bag.deviceKey.overwrite([1, 2, 3])
        expectError("deviceKeyUnusable") { try bed.bag.unlock() }
        let new = try bed.recover()
        try bed.expectRecovered(passcode: "new", code: new)
    }

    @Test("A retired D gets its second wrap anew, and an active B its MAC")
    func retiredGenerations() throws {
        let bag = try TestKeybag()
        let code = try bag.makeRecoveryCode()
        try bag.rewriteAuthentically { copy in
            let start = copy.repeatEntry(.none)
            let name = ClassKeyName(keybag: bag.keybag.uuid, protectionClass: .none, generation: 2)
            let key = try ClassKey.random(name: name)
            let keybagKey = try bag.keybag.openWithPasscode(
                secret(TestKeybag.passcode), try bag.keybag.file.load())
            let device = try DeviceKey(secret: secret(try bag.deviceKey.contents()))
            copy.bytes[start + 2] = 2
            copy.set(UInt32(2), at: start + 4)
            copy.set(try key.id(), at: start + 8)
            copy.set(try keybagKey.wrap(key).bytes, at: start + 24)
            copy.set(try device.wrap(key).bytes, at: start + 64)
        }
        try bag.deviceKey.remove()
        _ = try bag.recover(with: code)
        let copy = try bag.keybag.file.load().copy
        for generation in [1, 2] as [UInt32] {
            let name = ClassKeyName(keybag: bag.keybag.uuid, protectionClass: .none, generation: generation)
            #expect(try bag.reopened().withClassKey(name) { _ in true } == true, "generation \(generation)")
        }
        let half = try #require(copy.active(.completeUnlessOpen).publicHalf)
        let name = ClassKeyName(keybag: copy.uuid, protectionClass: .completeUnlessOpen, generation: 1)
        let message = ClassKeyEntry.PublicHalf.message(name: name, key: half.key)
        let device = try DeviceKey(secret: secret(try Locations.deviceKey.contents()))
        #expect(try device.bPublicMACKey(for: copy.uuid).isValid(half.macUnderDevice, for: message))
    }

    @Test("A wrong code is refused, and counts nowhere")
    func wrongCode() throws {
        let bag = try TestKeybag()
        _ = try bag.makeRecoveryCode()
        let before = try ["attempts", "keybag.0", "keybag.1"].map { try bag.file($0).contents() }
        for _ in 0..<10 {
            expectError("wrongRecoveryCode") { _ = try bag.keybag.open(recoveryCode: RecoveryCode.random()) }
        }
        #expect(try ["attempts", "keybag.0", "keybag.1"].map { try bag.file($0).contents() } == before)
        try bag.unlock()
    }

    @Test("A new code replaces the old one, and no wrap of the old one is left")
    func replaced() throws {
        let bag = try TestKeybag()
        let first = try bag.makeRecoveryCode()
        let old = try #require(bag.keybag.file.load().copy.slot(.recoveryCode))
        let second = try bag.makeRecoveryCode()
        #expect(try !bag.opens(with: first))
        #expect(try bag.opens(with: second))
        #expect(try bag.files(holding: old.wrapped.bytes) == [])
        try bag.unlock()
    }

    @Test("Dropped before it is committed, nothing has changed")
    func dropped() throws {
        let bag = try TestKeybag()
        let code = try bag.makeRecoveryCode()
        let before = try bag.directory.names().map { try bag.file($0).contents() }
        _ = try bag.keybag.open(recoveryCode: code)
        #expect(try bag.directory.names().map { try bag.file($0).contents() } == before)
    }

    @Test("The passcode goes on after a new code, and the code after a new passcode")
    func independent() throws {
        let bag = try TestKeybag(state: .unlocked)
        let code = try bag.makeRecoveryCode()
        try bag.changePasscode(to: "new")
        #expect(try bag.opens(with: code))
        try bag.unlock("new")
    }

    @Test("Of two recoveries at the same time the second is told to try again, with the code that counts")
    func concurrently() throws {
        let bag = try TestKeybag()
        let code = try bag.makeRecoveryCode()
        let late = try bag.keybag.open(recoveryCode: code)
        let lateCode = try RecoveryCode.random()
        let new = try bag.recover(with: code)
        do throws(DataProtectionError) {
            try late.recover(passcode: secret("late"), 1000, recoveryCode: lateCode, 1000)
            Issue.record("the code was spent")
        } catch {
            #expect(error == .busy(bag.directory))
        }
        #expect(try bag.opens(with: new))
        try bag.unlock("new")
    }

    @Test("One copy damaged: the other one is used, and both are written", arguments: [0, 1])
    func oneCopyDamaged(copy: Int) throws {
        let bed = try Bed()
        var bytes = try bed.bag.file("keybag.\(copy)").contents()
        bytes[100] ^= 1
        try bed.bag.file("keybag.\(copy)").overwrite(bytes)
        try bed.expectRecovered(passcode: "new", code: bed.recover())
    }

    @Test("An attempts file that is missing or damaged is made anew", arguments: [nil, [], [1, 2, 3]] as [[UInt8]?])
    func attempts(bytes: [UInt8]?) throws {
        let bed = try Bed()
        if let bytes { try bed.bag.file("attempts").overwrite(bytes) } else { try bed.bag.file("attempts").remove() }
        let new = try bed.recover()
        #expect(try bed.bag.attemptSectors().map { $0?.failures } == [0, 0])
        try bed.expectRecovered(passcode: "new", code: new)
    }

    @Test("Where the attempts or the keybag cannot be written, nothing changes and the old code goes on")
    func cannotStore() throws {
        for obstacle in ["attempts", "keybag.new"] {
            let bag = try TestKeybag()
            let code = try bag.makeRecoveryCode()
            let before = try bag.file("keybag.0").contents()
            if obstacle == "attempts" { try bag.file(obstacle).remove() }
            try OwnDirectory.make(bag.file(obstacle).appending("inside"))
            #expect(throws: DataProtectionError.self) { _ = try bag.recover(with: code) }
            for copy in [0, 1] { #expect(try bag.file("keybag.\(copy)").contents() == before) }
            #expect(try bag.opens(with: code))
        }
    }

    @Test("The passcode is checked before anything changes", arguments: [0, 1025])
    func unusablePasscode(count: Int) throws {
        let bag = try TestKeybag()
        let code = try bag.makeRecoveryCode()
        let passcode = String(repeating: "x", count: count)
        expectError("passcodeUnusable") { _ = try bag.recover(with: code, passcode: passcode) }
        #expect(try bag.opens(with: code))
    }

    @Test("An altered keybag is not recovered from: its authentication code is under the same key")
    func altered() throws {
        let bag = try TestKeybag()
        let code = try bag.makeRecoveryCode()
        var copy = try StoredKeybag(of: bag)
        copy.bytes[StoredKeybag.Field.deviceID] ^= 1
        copy.finish()
        try copy.store(in: bag)
        expectError("keybagDamaged") { _ = try bag.reopened().open(recoveryCode: code) }
    }
}
