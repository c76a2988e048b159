import Foundation
import Testing

@Suite("Recovery without a terminal")
struct RecoveryVerbTests {
    private let sandbox: CommandSandbox
    init() throws { sandbox = try CommandSandbox() }

    private func write(_ name: String) throws {
        try sandbox.unlock()
        try sandbox.protectedFile(name)
        try sandbox.run("lock")
    }

    @Test("init makes a code only when told to, and prints nothing else")
    func initialise() throws {
        let fresh = try CommandSandbox(makesKeybag: false)
        let made = try fresh.run("init", "--recovery-code", "--passcode-fd", "3", passcodes: Data("one".utf8))
        #expect(made.status == 0 && made.errors == "")
        let code = try #require(made.recoveryCode)
        #expect(try fresh.run("status").text.contains("recovery code: there is one\n"))
        #expect(try fresh.run("status", "--json").text.contains("\"hasRecoveryCode\": true"))
        let recovered = try fresh.recover(with: code)
        #expect(recovered.status == 0 && recovered.errors == "")
        #expect(try #require(recovered.recoveryCode) != code)
        #expect(try fresh.unlocks(with: "new") == 0)

        for option in [[], ["--no-recovery-code"]] {
            let plain = try CommandSandbox(makesKeybag: false)
            let done = try plain.run(["init", "--passcode-fd", "3"] + option, passcodes: Data("one".utf8))
            #expect(done.status == 0 && done.text + done.errors == "")
            #expect(try plain.run("status").text.contains("recovery code: none\n"))
        }
    }

    @Test("A code that cannot be shown is not stored: no keybag is made, and the old code stays")
    func cannotShow() throws {
        let fresh = try CommandSandbox(makesKeybag: false)
        let script = "echo one | \"$PROTECTFS\" init --recovery-code --passcode-fd 0 >/dev/full"
        #expect(try fresh.shell(script).status == 74)
        #expect(!FileManager.default.fileExists(atPath: fresh.keybagDirectory))
        let code = try sandbox.makeRecoveryCode()
        let before = try sandbox.keybagFiles()
        let full = "\"$PROTECTFS\" passcode --with-recovery-code --recovery-code-fd 0 --new-passcode-fd 0 >/dev/full"
        #expect(try sandbox.shell(full, input: Data("\(code)\nnew\n".utf8)).status == 74)
        #expect(try sandbox.keybagFiles() == before)
    }

    @Test("The device key deleted: unlock says other device and how to recover; the code opens everything")
    func deviceKeyDeleted() throws {
        let code = try sandbox.makeRecoveryCode()
        try write("file")
        try FileManager.default.removeItem(atPath: sandbox.path("state/protectfs/device-key"))
        let before = try sandbox.keybagFiles()
        let refused = try sandbox.run(
            "unlock", "--passcode-fd", "3", passcodes: Data(CommandSandbox.passcode.utf8))
        #expect(refused.status == 66)
        #expect(refused.errors.contains("was made with another device key: '"))
        #expect(refused.errors.contains("device-key' is not there\n"))
        #expect(refused.errors.contains("hint: with the recovery code: protectfs passcode --with-recovery-code\n"))
        #expect(try sandbox.keybagFiles() == before)

        let recovered = try sandbox.recover(with: code)
        #expect(recovered.status == 0, "\(recovered.errors)")
        #expect(try sandbox.unlocks(with: CommandSandbox.passcode) == 77)
        #expect(try sandbox.unlocks(with: "new") == 0)
        #expect(try sandbox.run("cat", "file").text == "text\n")
        try sandbox.expectSpent(code, butNot: #require(recovered.recoveryCode))
    }

    @Test("Moved to another machine: other device, no attempt counted, and the code makes it this machine's")
    func moved() throws {
        let code = try sandbox.makeRecoveryCode()
        try write("file")
        let other = try CommandSandbox()
        try FileManager.default.removeItem(atPath: sandbox.path("state"))
        try FileManager.default.moveItem(atPath: other.path("state"), toPath: sandbox.path("state"))
        let before = try sandbox.keybagFiles()
        for passcode in [CommandSandbox.passcode, "wrong"] { #expect(try sandbox.unlocks(with: passcode) == 66) }
        #expect(try sandbox.keybagFiles() == before, "the attempts file too, byte for byte")
        #expect(try sandbox.recover(with: code).status == 0)
        #expect(try sandbox.unlocks(with: "new") == 0)
        #expect(try sandbox.run("cat", "file").text == "text\n")
    }

    @Test("The passcode forgotten: hinted at, and a delay does not hinder the code")
    func forgotten() throws {
        let code = try sandbox.makeRecoveryCode()
        for guess in 1...5 {
            let done = try sandbox.run("unlock", "--passcode-fd", "3", passcodes: Data("guess \(guess)".utf8))
            #expect(done.errors.contains("hint: with the recovery code: protectfs passcode --with-recovery-code\n"))
        }
        let recovered = try sandbox.recover(with: code)
        #expect(recovered.status == 0, "\(recovered.errors)")
        #expect(try sandbox.unlocks(with: "new") == 0, "and the delay is over")
        try sandbox.expectSpent(code, butNot: #require(recovered.recoveryCode))
    }

    @Test("A path that cannot become a keybag is reported before a code is shown")
    func initialiseWhereSomethingIs() throws {
        let fresh = try CommandSandbox(makesKeybag: false)
        try fresh.put("x", at: "keybag/letter")
        let done = try fresh.run("init", "--recovery-code", "--passcode-fd", "3", passcodes: Data("one".utf8))
        #expect(done.status == 73 && done.text == "")
        #expect(done.errors.contains("keybag' exists already"))
    }

    @Test("Typos are 64 and change nothing")
    func typos() throws {
        let code = try sandbox.makeRecoveryCode()
        let before = try sandbox.keybagFiles()
        let first = code.first == "0" ? "1" : "0"
        let typos = [
            (String(code.dropLast()), "has 32 characters, and this one 31"), ("", "has 32 characters, and this one 0"),
            (String(repeating: "0", count: 300), "and this one more than 256"),
            ("U" + code.dropFirst(), "a typo in group 1"), (first + code.dropFirst(), "a typo, most likely in group 1"),
        ]
        for (text, message) in typos {
            let done = try sandbox.recover(with: text)
            #expect(done.status == 64 && done.text == "")
            #expect(done.errors.contains(message), "\(done.errors)")
            #expect(text.isEmpty || !done.errors.contains(text.dropFirst()), "nothing of it is repeated")
        }
        #expect(try sandbox.keybagFiles() == before)
    }

    @Test("Without a code, and with another keybag's, there is nothing to recover with")
    func refused() throws {
        let none = try sandbox.run("passcode", "--with-recovery-code", "--recovery-code-fd", "0")
        #expect(none.status == 66)
        #expect(none.errors.contains("protectfs recovery new"))
        _ = try sandbox.makeRecoveryCode()
        let other = try CommandSandbox()
        #expect(try sandbox.recover(with: other.makeRecoveryCode()).status == 77)
        let asked = try sandbox.run("passcode", "--with-recovery-code")
        #expect(asked.status == 64)
        #expect(asked.errors.contains("--recovery-code-fd 3"))
        for arguments in [
            ["--recovery-code-fd", "3"], ["--with-recovery-code", "--passcode-fd", "3"],
            ["--with-recovery-code", "--recovery-code-fd", "-1"],
        ] {
            #expect(try sandbox.run(["passcode"] + arguments).status == 64)
        }
    }

    @Test("recovery new replaces the code in any lock state")
    func new() throws {
        let old = try sandbox.makeRecoveryCode()
        let passcode = Data(CommandSandbox.passcode.utf8)
        let done = try sandbox.run("recovery", "new", "--passcode-fd", "3", passcodes: passcode)
        #expect(done.status == 0 && done.errors == "")
        try sandbox.expectSpent(old, butNot: #require(done.recoveryCode))
        let wrong = try sandbox.run("recovery", "new", "--passcode-fd", "3", passcodes: Data("wrong".utf8))
        #expect(wrong.status == 77 && wrong.text == "")
    }

    @Test("If storing fails, the code that was shown is void, and the old one is not")
    func cannotStore() throws {
        let code = try sandbox.makeRecoveryCode()
        let obstacle = sandbox.keybagDirectory + "/keybag.new/inside"
        try FileManager.default.createDirectory(atPath: obstacle, withIntermediateDirectories: true)
        let done = try sandbox.recover(with: code)
        #expect(done.status != 0)
        #expect(done.errors.contains("the recovery code shown is void, the old one is not"))
        try FileManager.default.removeItem(atPath: sandbox.keybagDirectory + "/keybag.new")
        // A device key that cannot be used: what helps is said too.
        try sandbox.put("short", at: "state/protectfs/device-key-2")
        let (key, other) = (sandbox.path("state/protectfs/device-key"), sandbox.path("state/protectfs/device-key-2"))
        _ = try sandbox.shell("mv \"$0\" away; mv \"$1\" \"$0\"", [key, other])
        let unusable = try sandbox.recover(with: code)
        #expect(unusable.status == 66 && unusable.errors.contains("recovery code shown is void"))
        #expect(unusable.errors.contains("or move it away"))
        _ = try sandbox.shell("mv away \"$0\"", [key])
        #expect(try sandbox.unlocks(with: CommandSandbox.passcode) == 0)
        #expect(try sandbox.recover(with: code).status == 0)
    }

    @Test("One copy damaged: said, used, and mended by the recovery")
    func oneCopyDamaged() throws {
        let code = try sandbox.makeRecoveryCode()
        try Data("nothing".utf8).write(to: URL(fileURLWithPath: sandbox.keybagDirectory + "/keybag.1"))
        let recovered = try sandbox.recover(with: code)
        #expect(recovered.status == 0 && recovered.errors.contains("one copy of the keybag"))
        let files = try sandbox.keybagFiles()
        #expect(files["keybag.0"] == files["keybag.1"])
        #expect(try sandbox.unlocks(with: "new") == 0)
    }

    @Test(
        "Neither code is seen anywhere but on standard input and output: no argument, no variable, no file",
        .enabled(if: SystemCallTrace.isPossible, SystemCallTrace.whyNot))
    func trace() throws {
        let user = try EndToEndUser.caller()
        let made = try user.run(
            ["protectfs", "recovery", "new", "--passcode-fd", "0"], input: Array(EndToEndUser.passcode.utf8))
        let old = made.text.filter { $0 != "\n" }
        let arguments = ["passcode", "--with-recovery-code", "--recovery-code-fd", "0", "--new-passcode-fd", "0"]
        let trace = try SystemCallTrace(arguments, by: user, input: Array("\(old)\nnew\n".utf8))
        let new = trace.run.text.filter { $0 != "\n" }
        #expect(new.count == 39 && new != old)
        for form in [old, old.filter { $0 != "-" }] {
            #expect(trace.calls(revealing: Secret(Array(form.utf8))).isEmpty)
        }
        #expect(trace.calls(revealing: Secret(Array(new.filter { $0 != "-" }.utf8))).isEmpty)
        // It is shown straight from secret memory, where strace itself cannot see it.
        let shown = trace.calls.filter { $0.text.hasPrefix("write(1<") && $0.text.hasSuffix(", 39) = 39") }
        #expect(shown.count == 1)
        let seen = trace.calls(revealing: Secret(Array(new.utf8))).map(\.text)
        #expect(seen.isEmpty || seen == shown.map(\.text))
    }

    @Test("passcode says that the current one is wrong before it reads the new one")
    func wrongBeforeNew() throws {
        try sandbox.unlock()
        // Standard input is empty: reading the new passcode from it would be 64.
        let done = try sandbox.run(
            "passcode", "--passcode-fd", "3", "--new-passcode-fd", "0", passcodes: Data("wrong".utf8))
        #expect(done.status == 77)
    }
}

extension CommandSandbox {
    /// Expects that `old` does not open the keybag any more, and `new` does.
    func expectSpent(_ old: String, butNot new: String, at location: SourceLocation = #_sourceLocation) throws {
        #expect(try recover(with: old).status == 77, sourceLocation: location)
        #expect(try recover(with: new).status == 0, sourceLocation: location)
    }
}
