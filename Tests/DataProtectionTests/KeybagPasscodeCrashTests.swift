import Glibc
import POSIXThreads
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// A change writes the new copy over the one not in force, then over the other one. It can end anywhere.
@Suite("A passcode change that was cut short")
struct KeybagPasscodeCrashTests {
    @Test("After any of its steps the keybag opens with the one or the other passcode", arguments: Step.allCases)
    func steps(step: Step) throws {
        let bag = try TestKeybag(state: .unlocked)
        let old = try StoredKeybag(of: bag)
        try bag.changePasscode(to: "new")
        let new = try StoredKeybag(of: bag)
        try bag.keybag.evictEverything()

        try step.restore(old, new, in: bag)
        let (right, wrong) = step.isNewInForce ? ("new", TestKeybag.passcode) : (TestKeybag.passcode, "new")
        expectError("wrongPasscode") { try bag.reopened().unlock(passcode: secret(wrong)) }
        try bag.reopened().unlock(passcode: secret(right))
        #expect(try bag.keybag.state() == .unlocked)
        #expect(bag.warnings.unusual == [])

        // And the unlock has cleared up: nothing tells any more that there was a change.
        let inForce = step.isNewInForce ? new : old
        for copy in [0, 1] { #expect(try bag.file("keybag.\(copy)").contents() == inForce.bytes) }
        #expect(try bag.directory.names() == ["attempts", "keybag.0", "keybag.1", "rings", "transition"])
        try bag.changePasscode(from: right, to: "third")
        try bag.unlock("third")
    }

    #if compiler(>=6.3)
        @Test("Killed at random moments, the last acknowledged passcode opens, or the one after it")
        func kill() async throws {
            var generator = Effort.generator("KeybagPasscodeCrashTests")
            for _ in 0..<Effort.count(6, 200) {
                let bag = try TestKeybag(passcode: "0", state: .unlocked)
                let directory = bag.directory.string
                let delay = UInt32.random(in: 0...40_000, using: &generator)
                await #expect(processExitsWith: .signal(SIGKILL)) {
                    [directory = directory as String, delay = delay as UInt32] in
                    try changePasscodes(ofKeybagAt: FilePath(directory), killedAfter: delay)
                }
                try checkAfterKill(bag)
            }
        }
    #else
        @Test(.disabled("exit tests with captured values need Swift 6.3"))
        func kill() {}
    #endif

    private func checkAfterKill(_ bag: TestKeybag) throws {
        let acknowledged = try #require(Int(String(decoding: bag.file("acknowledged").contents(), as: UTF8.self)))
        try bag.file("acknowledged").remove()
        _ = try bag.reopened()
        #expect(bag.warnings.unusual == [], "a kill damages no copy")
        let isNext = try bag.opens(with: "\(acknowledged + 1)")
        #expect(try isNext || bag.opens(with: "\(acknowledged)"), "\(acknowledged) was acknowledged")
        #expect(try bag.file("keybag.0").contents() == bag.file("keybag.1").contents())
        #expect(try bag.directory.names() == ["attempts", "keybag.0", "keybag.1", "rings", "transition"])
        #expect(try !bag.opens(with: "\(isNext ? acknowledged : acknowledged - 1)"), "the one before opens no more")
    }

    /// Where a change may have ended. The copy in force was `keybag.0`, so that `keybag.1` is replaced first.
    enum Step: String, CaseIterable {
        case emptyTemporary, halfTemporary, wholeTemporary, firstCopy
        case firstCopyAndHalfTemporary, firstCopyAndWholeTemporary, bothCopies

        var isNewInForce: Bool { ![.emptyTemporary, .halfTemporary, .wholeTemporary].contains(self) }

        func restore(_ old: StoredKeybag, _ new: StoredKeybag, in bag: TestKeybag) throws {
            try (self == .bothCopies ? new : old).store(in: bag, copies: [0])
            try (isNewInForce ? new : old).store(in: bag, copies: [1])
            let temporary = bag.file("keybag.new")
            switch self {
            case .emptyTemporary: try temporary.overwrite([])
            case .halfTemporary, .firstCopyAndHalfTemporary:
                try temporary.overwrite(Array(new.bytes.prefix(new.bytes.count / 2)))
            case .wholeTemporary, .firstCopyAndWholeTemporary: try temporary.overwrite(new.bytes)
            case .firstCopy, .bothCopies: break
            }
        }
    }
}

/// Runs in a process of its own: changes the passcode from "0" to "1" to "2" … until it is killed.
private func changePasscodes(ofKeybagAt directory: FilePath, killedAfter microseconds: UInt32) throws {
    let keybag = try Keybag(at: directory)
    let note = directory.appending("acknowledged")
    try note.overwrite(Array("0".utf8))
    try POSIXThread.detach {
        usleep(microseconds)
        raise(SIGKILL)
    }
    for number in 1... {
        try keybag.changePasscode(from: secret("\(number - 1)"), to: secret("\(number)"), iterations: 1000)
        // One write call of one digit or a few: never seen half.
        let file = try FileDescriptor.open(note, .writeOnly, options: .closeOnExec)
        try file.closeAfter { _ = try file.writeAll(Array("\(number)".utf8)) }
    }
}
