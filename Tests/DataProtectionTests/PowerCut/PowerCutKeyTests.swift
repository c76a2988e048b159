import PowerCutDisk
import ProtectionKeys
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// The power fails while a keybag changes: it opens by what was acknowledged or by what comes next, and so does every file.
@Suite(.enabled(if: PowerCutDisk.whyNot == nil, "power cuts take root, /dev/fuse and loop devices"), .serialized)
struct PowerCutKeyTests {
    private func passcodes(_ last: Int) -> [String] { (max(last, 0)...max(last, 0) + 2).map { "passcode \($0)" } }

    @Test func passcodes() throws {
        let cuts = try PowerCuts("passcodes")
        let path = try cuts.bed.make("f", .complete, [1, 2, 3])
        try cuts.bed.keybag.changePasscode(
            from: secret(TestKeybag.passcode), to: secret("passcode 0"), iterations: TestKeybag.iterations)
        try cuts.work("passcode", ["-"], steps: 25, passcode: passcodes) { keybag, last, comment in
            let found = try ProtectedFile.contents(of: path, keybag: keybag)
            #expect(found == [1, 2, 3], comment)
            // What was replaced opens nothing any more.
            if last > 0 {
                expectError("wrongPasscode", comment) { try keybag.unlock(passcode: secret("passcode \(last - 1)")) }
            }
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
        try cuts.work("recover", codes, steps: 15, passcode: passcodes) { keybag, last, comment in
            let found = try ProtectedFile.contents(of: path, keybag: keybag)
            #expect(found == [1, 2, 3], comment)
            // Exactly one code opens it: none was spent before the next one was stored.
            let right = codes.filter { (try? keybag.open(recoveryCode: recoveryCode($0))) != nil }
            #expect(right.count == 1, comment)
            #expect((max(last, 0)...max(last, 0) + 2).contains { codes[$0 % 5] == right.first }, comment)
        }
    }

    @Test func rotations() throws {
        let cuts = try PowerCuts("rotations")
        let texts = ProtectionClass.allCases.map { pattern(UInt64($0.rawValue), count: 100 + 5000 * Int($0.rawValue)) }
        let paths = try zip(ProtectionClass.allCases, texts).map { try cuts.bed.make("\($0)", $0, $1) }
        try cuts.bed.keybag.changePasscode(
            from: secret(TestKeybag.passcode), to: secret("passcode 0"), iterations: TestKeybag.iterations)
        try cuts.work("rotate", paths.map(\.string), steps: 10, passcode: passcodes) { keybag, last, comment in
            for (path, text) in zip(paths, texts) {
                #expect(try ProtectedFile.contents(of: path, keybag: keybag) == text, comment)
                try keybag.rewrap(fileAt: path)
            }
            let passcode = passcodes(last).first { (try? keybag.open(passcode: secret($0))) != nil }
            try keybag.open(passcode: secret(#require(passcode, comment))).forgetRetiredKeys(before: .max)
            for (path, text) in zip(paths, texts) {
                #expect(try ProtectedFile.contents(of: path, keybag: keybag) == text, comment)
            }
        }
    }
}
