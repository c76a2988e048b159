import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

/// FORMAT.md §2.21, with hardware in memory. Against a TPM: `TrustedModuleTests` and `TPMVerbTests`.
@Suite("A keybag that is bound to hardware")
struct HardwareBindingTests {
    private static let contents = (0..<5000).map { UInt8(truncatingIfNeeded: $0 * 7) }

    @Test(
        "It opens with its passcode and its secret, in every state and after each change; released, without it again"
    )
    func life() throws {
        let bed = try HardwareBed(isBound: false)
        #expect(try bed.share() == nil)
        try bed.bind()
        #expect(try bed.share() != nil && bed.memory.handles.count == 1 && !bed.isPending)
        #expect(try bed.keybag().isBoundToHardware)
        #expect(try bed.unlock() == nil)
        #expect(try bed.bag.keybag.state() == .unlocked)
        let keybag = try bed.keybag()
        try keybag.changePasscode(
            from: secret(TestKeybag.passcode), to: secret("new"), iterations: TestKeybag.iterations)
        #expect(try bed.unlock("new") == nil && bed.memory.handles.count == 1 && !bed.isPending)
        #expect(HardwareBed.isWrongPasscode(try bed.unlock()))
        #expect(try bed.unlock("new") == nil)
        try bed.opened(nil, "new").rotate(passcode: secret("new"), iterations: TestKeybag.iterations)
        #expect(try bed.unlock("new") == nil && bed.memory.handles.count == 1 && !bed.isPending)
        try bed.opened(nil, "new").forgetRetiredKeys(before: .max)
        #expect(try bed.unlock("new") == nil && bed.memory.handles.count == 1 && !bed.isPending)
        try bed.opened(nil, "new").setPasscode(
            secret("new"), iterations: TestKeybag.iterations, .unbound)
        #expect(try bed.share() == nil && bed.memory.handles == [] && !bed.isPending)
        #expect(try bed.unlock("new", FakeHardware(problem: .deviceMissing("/dev/tpmrm0"))) == nil)
        #expect(bed.bag.warnings.unusual == [])
    }

    @Test(
        "Every change that the passcode opens replaces the secret, and an older copy of the keybag opens no more"
    )
    func renewed() throws {
        let bed = try HardwareBed()
        #expect(try bed.unlock() == nil)
        let changes: [(HardwareBed) throws -> Void] = [
            { try $0.bind() },
            { try $0.opened().setRecoveryCode(.random(), iterations: TestKeybag.iterations) },
            {
                try $0.opened().changePasscode(
                    to: secret(TestKeybag.passcode), iterations: TestKeybag.iterations)
            },
            {
                try $0.opened().rotate(
                    passcode: secret(TestKeybag.passcode), iterations: TestKeybag.iterations)
            },
            { try $0.opened().forgetRetiredKeys(before: .max) },
        ]
        for change in changes {
            let (old, before) = (try bed.saved(), bed.memory.onlySecret)
            try change(bed)
            #expect(bed.memory.onlySecret != nil && bed.memory.onlySecret != before)
            let new = try bed.saved()
            try bed.putBack(old)
            #expect(try bed.problem() == .olderKeybag)
            #expect(try bed.attempts().failures == 0)
            try bed.putBack(new)
            #expect(try bed.unlock() == nil)
        }
        #expect(bed.memory.wrongTries == 0)
    }

    @Test(
        "One wrong passcode forty times is one try of the hardware and one failure; another one is a second"
    )
    func sameGuess() throws {
        let bed = try HardwareBed()
        for _ in 0..<40 { #expect(HardwareBed.isWrongPasscode(try bed.unlock("stale"))) }
        #expect(bed.memory.wrongTries == 1)
        #expect(try bed.attempts().failures == 1)
        #expect(HardwareBed.isWrongPasscode(try bed.unlock("other")))
        #expect(bed.memory.wrongTries == 2)
        #expect(try bed.attempts().failures == 2)
        // The mark is that of the last one.
        #expect(HardwareBed.isWrongPasscode(try bed.unlock("stale")))
        #expect(bed.memory.wrongTries == 3)
        #expect(try bed.unlock() == nil)
        #expect(try bed.attempts().failures == 0)
        #expect((try? bed.bag.keybag.ring.hardwareGuess.find()) == nil)
    }

    @Test(
        "No disk has anything of a passcode: binding clears the tag, and wrong passcodes leave none")
    func noTag() throws {
        let bed = try HardwareBed(isBound: false)
        _ = try bed.unlock("wrong")
        #expect(try bed.attempts().guessTag != nil)
        try bed.bind()
        #expect(try bed.attempts().guessTag == nil)
        _ = try bed.unlock("wrong")
        #expect(try bed.attempts().guessTag == nil && bed.attempts().failures == 1)
    }

    @Test(
        "A refusal by the hardware is not a wrong passcode, and is not counted as a failed attempt",
        arguments: [
            HardwareProblem.lockedOut(oneTryAfter: .seconds(600)), .otherModule, .secretMissing,
            .olderKeybag,
            .libraryMissing("libtss2-esys.so.0"), .deviceMissing("/dev/tpmrm0"),
            .permissionDenied("/dev/tpmrm0"),
            .failed(command: "NV_Read", code: 1),
        ])
    func refusals(problem: HardwareProblem) throws {
        let bed = try HardwareBed()
        _ = try bed.unlock("wrong")
        for _ in 0..<12 {
            #expect(
                try bed.problem(TestKeybag.passcode, FakeHardware(bed.memory, problem: problem)) == problem)
        }
        #expect(try bed.attempts().failures == 1)
        #expect(bed.bag.ringContents == [])
        #expect(try bed.unlock() == nil)
    }

    @Test("A secret that is gone, and a slot that somebody altered, have errors of their own")
    func altered() throws {
        let bed = try HardwareBed()
        try bed.bag.rewriteFreely { copy in copy.bytes[copy.slot(0) + 45] ^= 1 }
        #expect(try bed.problem() == .altered)
        #expect(try bed.attempts().failures == 0)
        bed.memory.clear()
        #expect(try bed.problem() == .secretMissing)
        #expect(try bed.attempts().failures == 0)
        #expect(bed.memory.wrongTries == 0)
    }

    @Test("The recovery code opens it without hardware, and then the passcode alone does")
    func recovery() throws {
        let bed = try HardwareBed()
        let code = try RecoveryCode.random()
        try bed.opened().setRecoveryCode(code, iterations: TestKeybag.iterations)
        let dead = FakeHardware(problem: .otherModule)
        try bed.keybag(dead).open(recoveryCode: code).recover(
            passcode: secret("new"), TestKeybag.iterations, recoveryCode: .random(), TestKeybag.iterations
        )
        #expect(try bed.share() == nil && bed.isPending)
        #expect(bed.bag.warnings.unusual.map(\.caseName) == ["hardwareSecretLeft"])
        #expect(try bed.unlock("new", dead) == nil)
        // When it is there again, the next unlock destroys what nobody needs.
        #expect(try bed.unlock("new") == nil)
        #expect(bed.memory.handles == [] && !bed.isPending)
    }

    @Test("A slot that a version without hardware wrote counts: the passcode alone opens it")
    func olderVersion() throws {
        let bed = try HardwareBed()
        let device = try bed.bag.keybag.deviceKey()
        let opened = try bed.opened()
        // What such a version does with its recovery code: a slot with another salt, and the entry stays.
        let slot = try Keybag.passcodeSlot(secret("new"), TestKeybag.iterations, device, opened.key)
        try opened.commit { copy in copy.replaceSlots([slot]) }
        #expect(try bed.share() == nil && bed.bag.keybag.file.load().copy.hardwareShares.count == 1)
        #expect(try bed.unlock("new", FakeHardware(problem: .otherModule)) == nil)
        // The next change removes what is left.
        try bed.opened(nil, "new").setPasscode(secret("new"), iterations: TestKeybag.iterations, .bound)
        #expect(bed.memory.handles.count == 1)
        #expect(try bed.bag.keybag.file.load().copy.hardwareShares.count == 1)
        #expect(try bed.unlock("new") == nil)
    }

    @Test(
        "A rotation by a version without hardware keeps the secret's wrap, and hardware of another kind is unsupported"
    )
    func reserved() throws {
        let bed = try HardwareBed()
        let opened = try bed.opened()
        var copy = try bed.bag.keybag.file.load().copy
        let other = try KeybagKey.random(for: copy.uuid)
        let before = try #require(copy.hardwareShares.first)
        try copy.rotateKeys(from: opened.key, to: other, bed.bag.keybag.deviceKey())
        let after = try #require(copy.hardwareShares.first)
        #expect(after.wrapped != before.wrapped && after.id == before.id && after.name == before.name)
        #expect(try other.rewrap(after.wrapped, under: opened.key) == before.wrapped)
        for (offset, value) in [(1, 2), (64, 2), (66, 1), (199, 1)] as [(Int, UInt8)] {
            let saved = try bed.saved()
            try bed.bag.rewriteFreely { copy in
                copy.bytes[copy.entry(copy.entryCount - 1) + offset] = value
            }
            guard case .unsupported = try bed.unlock() else {
                Issue.record("byte \(offset) of the share is not looked at")
                continue
            }
            #expect(try bed.attempts().failures == 0)
            try bed.putBack(saved)
        }
        #expect(try bed.unlock() == nil)
    }

    @Test("The value for the hardware never ends in 0, depends on the share, and the mark on its key")
    func values() throws {
        let uuid = try KeybagUUID.random()
        let device = try DeviceKey.random()
        let passcode = try StretchedPasscode(
            passcode: secret("a"), salt: [UInt8](repeating: 1, count: 32), iterations: 1000)
        var seen: Set<[UInt8]> = []
        var ends: Set<UInt8> = []
        for number in 0..<4000 as Range<UInt32> {
            let share = (0..<16).map { UInt8(truncatingIfNeeded: $0 < 4 ? number >> (8 * $0) : 0) }
            let value = try passcode.authorization(for: share, on: device, keybag: uuid).withUnsafeBytes { Array($0) }
            seen.insert(value)
            ends.insert(value[31])
        }
        #expect(seen.count == 4000 && !ends.contains(0) && ends.count == 255)
        func mark(_ key: UInt8) throws -> [UInt8] {
            let mark = try passcode.mark(under: secret([UInt8](repeating: key, count: 32)), keybag: uuid)
            return mark.withUnsafeBytes { Array($0) }
        }
        #expect(try mark(1) == mark(1))
        #expect(try mark(1) != mark(2))
    }

    @Test("Erasing destroys the secret; an erasure that is refused leaves a keybag that opens")
    func erased() throws {
        let bed = try HardwareBed()
        #expect(try bed.unlock() == nil)
        let (saved, attempts) = (try bed.saved(), try bed.bag.file("attempts").contents())
        let rings = try bed.bag.file("rings").contents()
        try bed.bag.file("rings").overwrite(Array("4242 \(Hexadecimal.text(Clock.bootID())) 0\n".utf8))
        expectError("keysElsewhere") {
            _ = try KeybagErasure(at: bed.bag.directory, hardware: FakeHardware(bed.memory)).perform()
        }
        try bed.bag.file("rings").overwrite(rings)
        #expect(try bed.unlock() == nil && bed.memory.handles.count == 1)
        #expect(
            try KeybagErasure(at: bed.bag.directory, hardware: FakeHardware(bed.memory)).perform() == [])
        #expect(bed.memory.handles == [] && !OwnDirectory.exists(bed.bag.directory))
        // What flash memory or a backup kept of it opens nothing.
        let second = try TestKeybag()
        for (name, bytes) in zip(KeybagFile.names, saved) { try second.file(name).overwrite(bytes) }
        try second.file("attempts").overwrite(attempts)
        try second.deviceKey.overwrite(bed.bag.deviceKey.contents())
        let keybag = try Keybag(
            at: second.directory, hardware: FakeHardware(bed.memory), followUp: .classChanges,
            warn: { _ in })
        expectError("hardware") { _ = try keybag.open(passcode: secret(TestKeybag.passcode)) }
    }

    @Test("An erasure without its hardware is done all the same, and warns")
    func erasedWithout() throws {
        let bed = try HardwareBed()
        var warnings: [ProtectionWarning] = []
        let erasure = try KeybagErasure(
            at: bed.bag.directory, hardware: FakeHardware(problem: .otherModule))
        #expect(try erasure.perform { warnings.append($0) } == [])
        #expect(warnings.map(\.caseName) == ["hardwareSecretNotErased"])
        #expect(!OwnDirectory.exists(bed.bag.directory))
    }

    @Test("A note that names the secret of another keybag destroys it neither at an unlock nor with the keybag")
    func forgedNote() throws {
        let (bed, other) = (try HardwareBed(), try HardwareBed())
        let share = try #require(try other.share())
        let label = try HardwareShare.label(of: share.id, in: other.bag.keybag.uuid)
        // Both in one TPM.
        let hardware = FakeHardware(other.memory)
        func forge() throws {
            var note = try HardwareNote(in: bed.bag.directory)
            try note.add([HardwareNote.Line(handle: share.index, label: label)])
        }
        try bed.bind(.unbound)
        try forge()
        #expect(try bed.unlock(TestKeybag.passcode, hardware) == nil && !bed.isPending)
        #expect(other.memory.handles == [share.index])
        try forge()
        let erasure = try KeybagErasure(at: bed.bag.directory, hardware: hardware)
        #expect(try erasure.perform { _ in } == [])
        #expect(other.memory.handles == [share.index])
        #expect(try other.unlock() == nil)
    }

    @Test("A change that is under way is busy for another one, and an unlock leaves it alone")
    func busy() throws {
        let bed = try HardwareBed()
        #expect(try bed.unlock() == nil)
        var note: HardwareNote? = try HardwareNote(in: bed.bag.directory)
        try note?.add([HardwareNote.Line(handle: 0x018D_0009, label: [UInt8](repeating: 9, count: 32))])
        expectError("busy") { try bed.bind() }
        #expect(try bed.unlock() == nil && bed.isPending)
        note = nil
        #expect(try bed.unlock() == nil && !bed.isPending)
        #expect(bed.memory.handles.count == 1)
    }

    @Test(
        "A reader that was written from FORMAT.md opens nothing with the whole disk and the passcode, and everything with the secret",
        .enabled(
            if: IndependentReaderTests.hasPython, "python3 with the package cryptography is not here"))
    func independent() throws {
        let files = try FileTestBed()
        let paths = try ProtectionClass.allCases.map { try files.make("\($0)", $0, Self.contents) }
        let memory = FakeHardware.Memory()
        let keybag = try Keybag(
            at: files.bag.directory, hardware: FakeHardware(memory), followUp: .classChanges,
            warn: { _ in })
        try keybag.open(passcode: secret(TestKeybag.passcode)).setPasscode(
            secret(TestKeybag.passcode), iterations: TestKeybag.iterations, .bound)
        let disk = ["--keybag", files.bag.directory.string, "--device-key", files.bag.deviceKey.string]
        func read(_ program: String, _ words: [String]) throws -> IndependentReaderTests.Answer {
            try IndependentReaderTests.python(
                [IndependentReaderTests.folder.appending(program).string] + disk + words
                    + paths.map(\.string),
                input: TestKeybag.passcode + "\n")
        }
        let without = try read("read.py", [])
        #expect(
            without.status == 65 && without.error.contains("wrong passcode") && without.output == [])
        let wrong = try read("hardware.py", ["--secret", String(repeating: "00", count: 32)])
        #expect(wrong.status == 65 && wrong.output == [])
        let with = try read(
            "hardware.py", ["--secret", Hexadecimal.text(try #require(memory.onlySecret))])
        #expect(with.output == paths.flatMap { _ in Self.contents })
    }
}

extension TestKeybag {
    /// Changes both copies as somebody would who has no key: the keyless check is right afterwards.
    func rewriteFreely(_ change: (inout StoredKeybag) -> Void) throws {
        var copy = try StoredKeybag(of: self)
        change(&copy)
        copy.finishCheck()
        try copy.store(in: self)
    }
}
