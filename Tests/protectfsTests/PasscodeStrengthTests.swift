import DataProtection
import Foundation
import Testing

@testable import protectfs

@Suite("How weak a passcode is")
struct PasscodeStrengthTests {
    private func strength(_ passcode: String) -> PasscodeStrength {
        PasscodeStrength(SecretBytes(byteCount: passcode.utf8.count) { $0.copyBytes(from: passcode.utf8) })
    }

    @Test(
        "Weak passcodes, and how long they last at most",
        arguments: [
            ("a", "less than a second"), ("1234567890", "1 second"), ("qwertyuiop", "less than a second"),
            ("PassWord1", "less than a second"), ("aaaaaaaaaaaaaaaaaaaa", "less than a second"),
            ("hellohellohellohellohello", "less than a second"), ("370852", "1 minute"), ("xkgwtbzm", "162 days"),
        ])
    func weak(passcode: String, duration: String) {
        #expect(strength(passcode).isWeak)
        #expect(strength(passcode).duration == duration)
    }

    @Test(
        "Strong ones are not warned of",
        arguments: [CommandSandbox.passcode, "correct horse battery staple", "dK7$xq!9Tz", "ein Löwe trinkt gern Tee"])
    func strong(passcode: String) {
        #expect(!strength(passcode).isWeak)
        #expect(strength(passcode).duration == "more than a thousand years")
    }

    @Test("init and passcode warn whoever types a weak passcode, and take it; a script is told nothing")
    func warning() throws {
        let warning = "protectfs: warning: this passcode is weak: with a copy of this disk, one graphics card finds it "
        let sandbox = try CommandSandbox(makesKeybag: false)
        let made = try PseudoTerminal.run(
            ["init", "--no-recovery-code"], in: sandbox,
            [.expect("New passcode: "), .send("a\n"), .expect("Again: "), .send("a\n")])
        #expect(made.status == 0 && made.shown.contains(warning + "within less than a second"), "\(made.shown)")
        #expect(made.shown.contains("protectfs: hint: protect a file: protectfs protect FILE"))
        #expect(made.shown.contains("no agent runs: the keys stay"))
        let changed = try PseudoTerminal.run(
            ["passcode"], in: sandbox,
            [
                .expect("Current passcode: "), .send("a\n"), .expect("New passcode: "), .send("b\n"),
                .expect("Again: "), .send("b\n"),
            ])
        #expect(changed.status == 0 && changed.shown.contains(warning), "\(changed.shown)")
        let other = try CommandSandbox(makesKeybag: false)
        let silent = try other.run("init", "--passcode-fd", "3", passcodes: Data("a".utf8))
        #expect(silent.status == 0 && silent.text + silent.errors == "")
    }
}
