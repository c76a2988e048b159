import PowerCutDisk
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

/// The power fails while keybags are made, tried and erased.
@Suite(.enabled(if: PowerCutDisk.whyNot == nil, "\(PowerCutDisk.whyNot ?? "")"), .serialized)
struct PowerCutKeybagTests {
    private let disk: PowerCutDisk
    private var root: FilePath { FilePath(disk.mountPoint) }

    init() throws { disk = try PowerCutDisk() }

    /// Every wrong passcode that was refused is counted: who cuts the power gets no tries for nothing.
    @Test func attempts() throws {
        let bag = try TestKeybag(in: root)
        // Two wrong ones at the end: what nobody has flushed is found to be missing.
        let steps = 26
        let marks = try acknowledged(steps) { number in
            if Self.failures(after: number) == 0 {
                _ = try bag.keybag.open(passcode: secret(TestKeybag.passcode))
            } else {
                expectError("wrongPasscode") { _ = try bag.keybag.open(passcode: secret("wrong \(number)")) }
            }
        }
        try disk.afterCuts(of: "attempts", marks: marks) { allowed, text in
            let comment = Comment(rawValue: text)
            let counted = Int(try #require(try bag.attempts(), comment).failures)
            // The right passcode is counted too, until it is known to be right.
            let last = Self.failures(after: allowed.lowerBound)
            let isForgotten = counted == 0 && Self.failures(after: allowed.upperBound) == 0
            #expect((last...last + allowed.count - 1).contains(counted) || isForgotten, comment)
            let keybag = try Keybag(at: bag.directory)
            expectError("wrongPasscode", comment) { _ = try keybag.open(passcode: secret("wrong")) }
            _ = try keybag.open(passcode: secret(TestKeybag.passcode))
        }
    }

    /// Two wrong ones, then the right one: a delay would begin with the fifth in a row.
    private static func failures(after step: Int) -> Int { (step + 1) % 3 }

    /// A keybag that was made opens; one that was being made opens, or can be made.
    @Test func creation() throws {
        let marks = try acknowledged(12) { try make($0) }
        try disk.afterCuts(of: "creation", marks: marks) { allowed, text in
            let comment = Comment(rawValue: text)
            for number in 0...max(0, allowed.upperBound) {
                if allowed.lowerBound < number {
                    do { try make(number) } catch DataProtectionError.because(KeybagFailure.keybagExists) {}
                }
                _ = try Keybag(at: directory(number)).open(passcode: secret("passcode \(number)"))
                #expect(try directory(number).names().sorted() == KeybagFile.allNames.sorted(), comment)
            }
        }
    }

    /// A keybag that was erased is gone; one that was being erased opens, or erasing it again ends it.
    @Test func erasure() throws {
        let count = 12
        let keybags = try (0..<count).map { try make($0) }
        let marks = try acknowledged(count) { try erase($0) }
        try disk.afterCuts(of: "erasure", marks: marks) { allowed, text in
            let comment = Comment(rawValue: text)
            for number in 0..<count where number > allowed.upperBound || isWhole(number) {
                _ = try Keybag(at: directory(number)).open(passcode: secret("passcode \(number)"))
            }
            if allowed.count == 2, allowed.upperBound < count {
                // On a disk of its own is only the keybag: where it was is forgotten last.
                KeybagRegistry.note(keybags[allowed.upperBound])
                try erase(allowed.upperBound)
            }
            for number in 0..<min(count, allowed.upperBound + 1) {
                #expect(!OwnDirectory.exists(directory(number)), comment)
            }
        }
    }

    /// Whether a copy or both are what they were.
    private func isWhole(_ number: Int) -> Bool { (try? Keybag(at: directory(number))) != nil }

    private func directory(_ number: Int) -> FilePath { root.appending("keybag-\(number)") }

    @discardableResult
    private func make(_ number: Int) throws -> Keybag {
        try Keybag.create(
            at: directory(number), passcode: secret("passcode \(number)"), iterations: TestKeybag.iterations,
            deviceKey: root.appending("device-key-\(number)"))
    }

    private func erase(_ number: Int) throws {
        #expect(try KeybagErasure(at: directory(number)).perform() == [])
    }

    /// Does steps from 0 on. The disk is unplugged then.
    private func acknowledged(_ count: Int, _ step: (Int) throws -> Void) throws -> [PowerCutDisk.Mark] {
        try disk.flush()
        var marks = [(step: -1, position: try disk.position())]
        for number in 0..<count {
            try step(number)
            marks.append((number, try disk.position()))
        }
        try disk.unplug()
        return marks
    }
}
