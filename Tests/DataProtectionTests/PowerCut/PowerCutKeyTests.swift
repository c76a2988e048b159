import PowerCutDisk
import ProtectionKeys
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// The power fails while a keybag changes: it opens by what was acknowledged or by what comes next, and so does every file.
@Suite(.enabled(if: PowerCutDisk.whyNot == nil, "\(PowerCutDisk.whyNot ?? "")"), .serialized)
struct PowerCutKeyTests {
    private func passcode(_ step: Int) -> String { "passcode \(step)" }

    @Test func passcodes() throws {
        let cuts = try PowerCuts("passcodes")
        let path = try cuts.bed.make("f", .complete, [1, 2, 3])
        try cuts.bed.keybag.changePasscode(
            from: secret(TestKeybag.passcode), to: secret("passcode 0"), iterations: TestKeybag.iterations)
        try cuts.work("passcode", none: 0, ["-"], steps: 25, passcode: passcode) { after in
            let found = try ProtectedFile.contents(of: path, keybag: after.keybag)
            #expect(found == [1, 2, 3], after.comment)
            // What was replaced opens nothing any more.
            let replaced = passcode(after.allowed.lowerBound - 1)
            expectError("wrongPasscode", after.comment) { try after.keybag.unlock(passcode: secret(replaced)) }
        }
    }

    @Test func recoveries() throws {
        let cuts = try PowerCuts("recoveries")
        let path = try cuts.bed.make("f", .complete, [1, 2, 3])
        let codes = try (0..<5).map { _ in try RecoveryCode.random().shown() }
        try cuts.bed.keybag.changePasscode(
            from: secret(TestKeybag.passcode), to: secret("passcode 0"), iterations: TestKeybag.iterations)
        try cuts.bed.keybag.open(passcode: secret("passcode 0")).setRecoveryCode(
            recoveryCode(codes[0]), iterations: TestKeybag.iterations)
        try cuts.work("recover", none: 0, codes, steps: 15, passcode: passcode) { after in
            let found = try ProtectedFile.contents(of: path, keybag: after.keybag)
            #expect(found == [1, 2, 3], after.comment)
            // Exactly one code opens it: none was spent before the next one was stored.
            let right = codes.filter { (try? after.keybag.open(recoveryCode: recoveryCode($0))) != nil }
            #expect(right.count == 1 && after.allowed.contains { codes[$0 % 5] == right.first }, after.comment)
        }
    }

    @Test func rotations() throws {
        let cuts = try PowerCuts("rotations")
        let texts = ProtectionClass.allCases.map { pattern(UInt64($0.rawValue), count: 100 + 5000 * Int($0.rawValue)) }
        let paths = try zip(ProtectionClass.allCases, texts).map { try cuts.bed.make("\($0)", $0, $1) }
        try cuts.bed.keybag.changePasscode(
            from: secret(TestKeybag.passcode), to: secret("passcode 0"), iterations: TestKeybag.iterations)
        try cuts.work("rotate", none: 0, paths.map(\.string), steps: 10, passcode: passcode) { after in
            let keybag = after.keybag
            #expect(after.allowed.contains { keybag.activeGeneration == UInt32($0 + 1) }, after.comment)
            for (path, text) in zip(paths, texts) {
                #expect(try ProtectedFile.contents(of: path, keybag: keybag) == text, after.comment)
                let needs = try keybag.needsRewrap(fileAt: path)
                #expect(!needs || after.allowed.count == 2, "\(after.comment): \(path) is under a retired key")
                try keybag.rewrap(fileAt: path)
            }
            let right = after.allowed.map(passcode).first { (try? keybag.open(passcode: secret($0))) != nil }
            try keybag.open(passcode: secret(#require(right, after.comment))).forgetRetiredKeys(before: .max)
            for (path, text) in zip(paths, texts) {
                #expect(try ProtectedFile.contents(of: path, keybag: keybag) == text, after.comment)
            }
        }
    }
}
