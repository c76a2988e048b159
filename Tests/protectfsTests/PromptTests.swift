import Foundation
import Testing

@Suite("Passcodes from the terminal")
struct PromptTests {
    private let sandbox: CommandSandbox
    init() throws { sandbox = try CommandSandbox() }

    @Test("unlock asks without echo, and the echo comes back")
    func unlock() throws {
        let seen = try PseudoTerminal.run(
            ["unlock"], in: sandbox, [.expect("Passcode: "), .look, .send(CommandSandbox.passcode + "\n")])
        #expect(seen.status == 0)
        #expect(seen.echo == [false, true])
        #expect(!seen.shown.contains(CommandSandbox.passcode))
    }

    @Test("Ctrl-C gives the echo back and exits with 130")
    func interrupted() throws {
        let seen = try PseudoTerminal.run(
            ["unlock"], in: sandbox, [.expect("Passcode: "), .look, .send("half"), .send("\u{3}")])
        #expect(seen.status == 130)
        #expect(seen.echo == [false, true])
        #expect(!seen.shown.contains("half"))
    }

    @Test("So do the signals that end a process", arguments: [SIGTERM, SIGHUP, SIGQUIT])
    func signals(signal: Int32) throws {
        let seen = try PseudoTerminal.run(["unlock"], in: sandbox, [.expect("Passcode: "), .look, .signal(signal)])
        #expect(seen.status == 128 + signal)
        #expect(seen.echo == [false, true])
    }

    @Test("Ctrl-Z gives the echo back, and fg asks again without it")
    func stopped() throws {
        let seen = try PseudoTerminal.run(
            ["unlock"], in: sandbox,
            [
                .expect("Passcode: "), .signal(SIGTSTP), .stopped, .look, .signal(SIGCONT), .expect("Passcode: "),
                .look,
                .send(CommandSandbox.passcode + "\n"),
            ])
        #expect(seen.status == 0)
        #expect(seen.echo == [true, false, true])
    }

    @Test("init asks twice, and again when the two differ")
    func initialise() throws {
        let sandbox = try CommandSandbox(makesKeybag: false)
        let seen = try PseudoTerminal.run(
            ["init"], in: sandbox,
            [
                .expect("New passcode: "), .send("one\n"), .expect("Again: "), .send("other\n"),
                .expect("not the same"), .expect("New passcode: "), .send("one\n"), .expect("Again: "), .look,
                .send("one\n"), .expect("[Y/n] "), .send("n\n"),
            ])
        #expect(seen.status == 0, "\(seen.shown)")
        #expect(seen.echo == [false, true])
        #expect(try sandbox.run("unlock", "--passcode-fd", "3", passcodes: Data("one\n".utf8)).status == 0)
    }

    @Test("Three pairs that differ are enough")
    func threeTimes() throws {
        let sandbox = try CommandSandbox(makesKeybag: false)
        let pair: [PseudoTerminal.Step] = [
            .expect("New passcode: "), .send("one\n"), .expect("Again: "), .send("other\n"),
        ]
        let seen = try PseudoTerminal.run(["init"], in: sandbox, pair + pair + pair)
        #expect(seen.status == 64)
        #expect(!FileManager.default.fileExists(atPath: sandbox.keybagDirectory))
    }

    @Test("A passcode of more than 1,024 bytes is refused, an empty one too")
    func unusable() throws {
        for typed in [String(repeating: "x", count: 1025) + "\n", "\n", "\u{4}"] {
            let seen = try PseudoTerminal.run(["unlock"], in: sandbox, [.expect("Passcode: "), .send(typed)])
            #expect(seen.status == 64)
            #expect(seen.echo == [true])
        }
        let longest = String(repeating: "x", count: 1024) + "\n"
        let typed: [PseudoTerminal.Step] = [.expect("Passcode: "), .send(longest)]
        let seen = try PseudoTerminal.run(["unlock"], in: sandbox, typed + typed + typed)
        #expect(seen.status == 77)
    }

    @Test("unlock asks three times at a terminal; the right passcode then is enough")
    func mistyped() throws {
        let wrong: [PseudoTerminal.Step] = [.expect("Passcode: "), .send("wrong\n"), .expect("wrong passcode")]
        let right: [PseudoTerminal.Step] = [.expect("Passcode: "), .send(CommandSandbox.passcode + "\n")]
        let seen = try PseudoTerminal.run(["unlock"], in: sandbox, wrong + wrong + right)
        #expect(seen.status == 0, "\(seen.shown)")
        let refused = try PseudoTerminal.run(["unlock"], in: sandbox, wrong + wrong + wrong)
        #expect(refused.status == 77, "\(refused.shown)")
    }

    @Test("While a delay runs, a passcode that is typed all the same is read and refused; the shell does not get it")
    func throttled() throws {
        for guess in 1...5 {
            _ = try sandbox.run("unlock", "--passcode-fd", "3", passcodes: Data("guess \(guess)".utf8))
        }
        for verb in [["unlock"], ["recovery", "new"]] {
            let seen = try PseudoTerminal.run(
                verb, in: sandbox,
                [.expect("hint: press Ctrl-C"), .expect("Passcode: "), .look, .send(CommandSandbox.passcode + "\n")])
            #expect(seen.status == 75, "\(seen.shown)")
            #expect(seen.echo == [false, true])
            #expect(!seen.shown.contains(CommandSandbox.passcode))
        }
    }

    @Test("A mistyped verb is answered by the one that was meant; a time that is none, by the valid forms")
    func hints() throws {
        for (typed, meant) in [("unlok", "unlock"), ("encrypt", "protect"), ("statsu", "status"), ("lok", "lock")] {
            let done = try sandbox.run(typed, "file")
            #expect(done.status == 64)
            #expect(done.errors.hasSuffix("hint: did you mean: protectfs \(meant)\n"), "\(done.errors)")
        }
        #expect(try sandbox.run("nonsense").errors.hasSuffix("hint: protectfs --help\n"))
        let time = try sandbox.run("unlock", "--for", "1h30m")
        #expect(time.status == 64 && time.errors.contains(": 90 or 90s, 10m, 2h, 1d; see"), "\(time.errors)")
        let range = try sandbox.run("cat", "--range", "x", "file")
        #expect(range.status == 64 && range.errors.contains("hint: a range is A-B"), "\(range.errors)")
    }

    @Test("protect asks before a directory; no is no", arguments: [("y\n", Int32(0)), ("n\n", 130), ("\n", 130)])
    func confirmation(answer: String, status: Int32) throws {
        try sandbox.unlock()
        try sandbox.put("a", at: "tree/a")
        try sandbox.put("b", at: "tree/b")
        let seen = try PseudoTerminal.run(
            ["protect", "--recursive", "tree"], in: sandbox,
            [.expect("2 files will be readable only through protectfs"), .send(answer)])
        #expect(seen.status == status)
        #expect(try sandbox.run("class", "tree/a").status == (status == 0 ? 0 : 65))
    }
}
