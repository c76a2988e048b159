import Foundation
import Testing

@Suite("Recovery codes at a terminal")
struct RecoveryPromptTests {
    private typealias Steps = [PseudoTerminal.Step]

    private static let newPasscode: Steps = [
        .expect("New passcode: "), .send("one\n"), .expect("Again: "), .send("one\n"),
    ]
    private static let confirmation: Steps = [.expect("type group "), .expect(": "), .confirmGroup]

    private static let offered = newPasscode + [.expect("[Y/n] ")]

    @Test("init offers a code, shows it, and asks a group back before it makes the keybag", arguments: ["", "Yes"])
    func offer(answer: String) throws {
        let sandbox = try CommandSandbox(makesKeybag: false)
        let seen = try PseudoTerminal.run(
            ["init"], in: sandbox, Self.offered + [.look, .send(answer + "\n")] + Self.confirmation)
        #expect(seen.status == 0, "\(seen.shown)")
        #expect(seen.echo == [true, true])
        let code = try #require(seen.recoveryCode)
        let recovered = try sandbox.recover(with: code)
        #expect(recovered.status == 0, "\(recovered.errors)")
        #expect(try sandbox.unlocks(with: "new") == 0)
    }

    @Test("No is no; --no-recovery-code and a passcode from a descriptor ask nothing")
    func declined() throws {
        let no = Self.offered + [.send("n\n")]
        for (options, steps) in [([], no), (["--no-recovery-code"], Self.newPasscode)] {
            let sandbox = try CommandSandbox(makesKeybag: false)
            let seen = try PseudoTerminal.run(["init"] + options, in: sandbox, steps)
            #expect(seen.status == 0 && seen.recoveryCode == nil, "\(seen.shown)")
            #expect(try sandbox.run("status").text.contains("recovery code: none"))
        }
        let sandbox = try CommandSandbox(makesKeybag: false)
        let seen = try PseudoTerminal.run(["init", "--passcode-fd", "0"], in: sandbox, [.send("one\n")])
        #expect(seen.status == 0 && !seen.shown.contains("[Y/n]"))
    }

    @Test("A group that is not the one asked for is asked again; three times are enough, and nothing is made")
    func unconfirmed() throws {
        let sandbox = try CommandSandbox(makesKeybag: false)
        let wrong: Steps = [.expect("type group "), .send("UUUU\n"), .expect("that is not group ")]
        let asked = Self.offered + [.send("\n")]
        let refused = try PseudoTerminal.run(["init"], in: sandbox, asked + wrong + wrong + wrong)
        #expect(refused.status == 64)
        #expect(refused.shown.contains("nothing has changed, and the code shown is void"))
        try expectNothing(in: sandbox)
        let mended = try PseudoTerminal.run(["init"], in: sandbox, asked + wrong + Self.confirmation)
        #expect(mended.status == 0)
    }

    @Test("Ctrl-C at any question of init leaves nothing", arguments: 0..<4)
    func interruptedInit(question: Int) throws {
        let sandbox = try CommandSandbox(makesKeybag: false)
        let questions: [Steps] = [
            [.expect("New passcode: ")], [.send("one\n"), .expect("Again: ")], [.send("one\n"), .expect("[Y/n] ")],
            [.send("\n"), .expect("type group ")],
        ]
        let steps = questions[...question].joined() + [.look, .send("\u{3}")]
        let seen = try PseudoTerminal.run(["init"], in: sandbox, Array(steps))
        #expect(seen.status == 130, "\(seen.shown)")
        #expect(seen.echo == [question >= 2, true])
        try expectNothing(in: sandbox)
    }

    private func expectNothing(in sandbox: CommandSandbox) throws {
        #expect(try FileManager.default.contentsOfDirectory(atPath: sandbox.root) == [])
    }

    @Test("A typo is said and the code asked for again; then the new passcode, and the new code")
    func recover() throws {
        let sandbox = try CommandSandbox()
        let code = try sandbox.makeRecoveryCode()
        let seen = try PseudoTerminal.run(
            ["passcode", "--with-recovery-code"], in: sandbox,
            [
                .expect("Recovery code:"), .look, .send(code.dropLast() + "\n"), .expect("this one 31"),
                .expect("Recovery code:"), .send("U" + code.dropFirst() + "\n"), .expect("a typo in group 1"),
                .expect("Recovery code:"), .send(code.lowercased().replacing("-", with: " ") + "\n"),
            ] + Self.newPasscode + Self.confirmation)
        #expect(seen.status == 0, "\(seen.shown)")
        #expect(seen.echo == [true, true])
        #expect(try sandbox.unlocks(with: "one") == 0)
        try sandbox.expectSpent(code, butNot: #require(seen.recoveryCode))
    }

    @Test("Three typos are enough")
    func threeTypos() throws {
        let sandbox = try CommandSandbox()
        _ = try sandbox.makeRecoveryCode()
        let typo: Steps = [.expect("Recovery code:"), .send("1234\n"), .expect("this one 4")]
        let seen = try PseudoTerminal.run(["passcode", "--with-recovery-code"], in: sandbox, typo + typo + typo)
        #expect(seen.status == 64)
    }

    @Test("Ctrl-C at any question of a recovery changes nothing", arguments: 0..<4)
    func interruptedRecovery(question: Int) throws {
        let sandbox = try CommandSandbox()
        let code = try sandbox.makeRecoveryCode()
        let before = try sandbox.keybagFiles()
        let questions: [Steps] = [
            [.expect("Recovery code:")], [.send(code + "\n"), .expect("New passcode: ")],
            [.send("one\n"), .expect("Again: ")], [.send("one\n"), .expect("type group ")],
        ]
        let steps = questions[...question].joined() + [.send("\u{3}")]
        let seen = try PseudoTerminal.run(["passcode", "--with-recovery-code"], in: sandbox, Array(steps))
        #expect(seen.status == 130 && seen.echo == [true], "\(seen.shown)")
        #expect(try sandbox.keybagFiles() == before)
        #expect(try sandbox.recover(with: code).status == 0)
    }

    @Test("recovery new asks the passcode, and Ctrl-C at the group keeps the old code")
    func new() throws {
        let sandbox = try CommandSandbox()
        let code = try sandbox.makeRecoveryCode()
        let asked: Steps = [.expect("Passcode: "), .look, .send(CommandSandbox.passcode + "\n")]
        let stopped = try PseudoTerminal.run(
            ["recovery", "new"], in: sandbox, asked + [.expect("type group "), .send("\u{3}")])
        #expect(stopped.status == 130 && stopped.echo == [false, true])
        #expect(try sandbox.recover(with: #require(stopped.recoveryCode)).status == 77)
        let done = try PseudoTerminal.run(["recovery", "new"], in: sandbox, asked + Self.confirmation)
        #expect(done.status == 0, "\(done.shown)")
        try sandbox.expectSpent(code, butNot: #require(done.recoveryCode))
    }

    @Test("passcode says at once that the current one is wrong")
    func wrongCurrent() throws {
        let sandbox = try CommandSandbox()
        try sandbox.unlock()
        let seen = try PseudoTerminal.run(
            ["passcode"], in: sandbox, [.expect("Current passcode: "), .send("wrong\n"), .expect("wrong passcode")])
        #expect(seen.status == 77)
        #expect(!seen.shown.contains("New passcode"))
    }
}
