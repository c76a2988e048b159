import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

/// FORMAT.md §2.21: two phases and a note.
@Suite("A change of a bound keybag that was cut short")
struct HardwareCrashTests {
    enum Change: CaseIterable {
        case bind, passcode, rotation, recoveryCode, forget, release, recovery, erasure
    }

    @Test(
        "If a change ends at any hardware step, the old or the new keybag opens, and no secret is left behind",
        arguments: Change.allCases)
    func steps(change: Change) throws {
        var number = 0
        var isComplete = false
        while !isComplete {
            for hasEffect in [false, true] {
                let end = FakeHardware.End(step: number, hasEffect: hasEffect)
                isComplete = try attempt(change, endingAt: end)
            }
            number += 1
            #expect(number < 20)
        }
        #expect(number > 1)
    }

    /// - Returns: whether the change came to its end before that step.
    private func attempt(_ change: Change, endingAt end: FakeHardware.End) throws -> Bool {
        let bed = try HardwareBed(isBound: change != .bind)
        #expect(try bed.unlock() == nil)
        let code = try RecoveryCode.random()
        try bed.opened().setRecoveryCode(code, iterations: TestKeybag.iterations)
        let hardware = FakeHardware(bed.memory, end: end)
        do throws(DataProtectionError) { try perform(change, bed, hardware, code) } catch {
            #expect(["hardware", "busy"].contains(error.caseName), "\(change) \(end): \(error)")
        }
        let isComplete = hardware.stepCount <= end.step
        if change == .erasure {
            // Nothing refuses it, and what it could not destroy opens nothing.
            if OwnDirectory.exists(bed.bag.directory) { #expect(try bed.unlock() == nil) }
            return isComplete
        }
        let opens = try ["new", TestKeybag.passcode].filter { try bed.unlock($0) == nil }
        #expect(opens.count == 1, "\(change) \(end)")
        let isBound = try bed.share() != nil
        #expect(bed.memory.handles.count == (isBound ? 1 : 0), "\(change) \(end)")
        #expect(!bed.isPending, "\(change) \(end)")
        try bed.keybag().evictEverything()
        #expect(try bed.unlock(#require(opens.first)) == nil)
        return isComplete
    }

    private func perform(
        _ change: Change, _ bed: HardwareBed, _ hardware: FakeHardware, _ code: borrowing RecoveryCode
    ) throws(DataProtectionError) {
        func keybag() throws(DataProtectionError) -> Keybag {
            try Keybag(
                at: bed.bag.directory, hardware: hardware, followUp: .classChanges,
                warn: bed.bag.warnings.append)
        }
        func opened() throws(DataProtectionError) -> OpenedKeybag {
            try keybag().open(passcode: secret(TestKeybag.passcode))
        }
        let few = TestKeybag.iterations
        switch change {
        case .bind: try opened().setPasscode(secret("new"), iterations: few, .bound)
        case .passcode: try opened().changePasscode(to: secret("new"), iterations: few)
        case .rotation: try opened().rotate(passcode: secret("new"), iterations: few)
        case .recoveryCode:
            let new: RecoveryCode
            do throws(KeyError) { new = try .random() } catch { throw .cryptography(error) }
            try opened().setRecoveryCode(new, iterations: few)
        case .forget: try opened().forgetRetiredKeys(before: .max)
        case .release: try opened().setPasscode(secret("new"), iterations: few, .unbound)
        case .recovery:
            let new: RecoveryCode
            do throws(KeyError) { new = try .random() } catch { throw .cryptography(error) }
            try keybag().open(recoveryCode: code).recover(
                passcode: secret("new"), few, recoveryCode: new, few)
        case .erasure: _ = try KeybagErasure(at: bed.bag.directory, hardware: hardware).perform()
        }
    }

    @Test("A note that was not finished, or names a missing index, stops nothing")
    func notes() throws {
        let bed = try HardwareBed()
        let line = "018d0001 " + String(repeating: "ab", count: 32) + "\n"
        for text in ["", "018d", line, line + "018d0002 abab", "nothing\n\n" + line, "\u{0}"] {
            try bed.bag.file("hardware-pending").overwrite(Array(text.utf8))
            #expect(try bed.unlock() == nil && !bed.isPending)
            #expect(bed.memory.handles.count == 1)
            try bed.bag.file("hardware-pending").overwrite(Array(text.utf8))
            try bed.bind()
            #expect(try bed.unlock() == nil && !bed.isPending)
            #expect(bed.memory.handles.count == 1)
        }
    }
}
