import Foundation
import Testing

@Suite("Passcodes from a window: askpass and pinentry")
struct AskpassTests {
    /// A display that no program looks at.
    private let display = ["DISPLAY": ":protectfs-tests"]

    /// A sandbox with `window`, which is a shell script, and a variable that names it.
    private func sandbox(
        _ window: String, named name: String = "askpass", variables: [String: String] = [:]
    ) throws -> CommandSandbox {
        let sandbox = try CommandSandbox(variables: variables)
        try FileManager.default.createDirectory(atPath: sandbox.path("bin"), withIntermediateDirectories: true)
        try TestProgram.write("#!/bin/sh\n\(window)\n", at: sandbox.path("bin/\(name)"))
        return sandbox
    }

    /// A pinentry that notes what it is told, and answers GETPIN with these lines.
    private func pinentry(_ answer: String) -> String {
        """
        echo "OK Pleased to meet you"
        while read -r line; do
            echo "$line" >>said
            case $line in
                OPTION*) echo "ERR 83886254 Unknown option <Pinentry>" ;;
                GETPIN) printf '\(answer)' ;;
                *) echo "# a comment"; echo "S A_STATUS line"; echo OK ;;
            esac
        done
        """
    }

    private func state(_ sandbox: CommandSandbox) throws -> String {
        String(try sandbox.run("status").text.split(separator: "\n")[0])
    }

    @Test("--askpass: the program gets the question as its argument, and prints the passcode")
    func askpass() throws {
        let sandbox = try sandbox("printf '%s' \"$*\" >asked; cat >input; echo '\(CommandSandbox.passcode)'")
        let done = try sandbox.run("unlock", "--askpass", "bin/askpass")
        #expect(done.status == 0, "\(done.errors)")
        #expect(done.errors == "")
        #expect(try sandbox.stored("asked") == Data("protectfs: Passcode:".utf8))
        #expect(try sandbox.stored("input") == Data(), "it reads nothing of ours")
        #expect(try state(sandbox).contains(": unlocked"))
    }

    @Test("A wrong passcode is refused and counted, a window that was closed is not")
    func refused() throws {
        let sandbox = try sandbox("[ -e wrong ] && echo wrong || { echo half; exit 1; }")
        let closed = try sandbox.run("unlock", "--askpass", "bin/askpass")
        #expect(closed.status == 130)
        #expect(closed.errors.contains("'bin/askpass' gave no passcode: it ended with status 1"))
        try sandbox.put("", at: "wrong")
        let wrong = try sandbox.run("unlock", "--askpass", "bin/askpass")
        #expect(wrong.status == 77)
        #expect(wrong.errors.contains("(1 wrong in a row"))
    }

    @Test("An empty answer, one that is too long, and no such program are errors")
    func unusable() throws {
        let sandbox = try sandbox("[ -e long ] && head -c 500000 /dev/zero | tr '\\0' x || echo")
        #expect(try sandbox.run("unlock", "--askpass", "bin/askpass").status == 64)
        try sandbox.put("", at: "long")
        #expect(try sandbox.run("unlock", "--askpass", "bin/askpass").status == 64)
        let missing = try sandbox.run("unlock", "--askpass", "bin/missing")
        #expect(missing.status == 66)
        #expect(missing.errors.contains("cannot start 'bin/missing'"))
        #expect(missing.errors.contains("hint: give it through a file descriptor: --passcode-fd 3 3<FILE"))
        let none = try CommandSandbox(variables: display)
        let done = try none.shell("PATH=/nowhere exec \"$PROTECTFS\" unlock")
        #expect(done.status == 66)
        #expect(done.errors.contains("hint: name another program: --askpass PROGRAM; or give it through"))
        #expect(try sandbox.run("unlock", "--askpass", "a", "--passcode-fd", "3").status == 64)
    }

    @Test("Without a terminal PROTECTFS_ASKPASS is asked where there is a display, and it is said so")
    func variable() throws {
        let window = "echo '\(CommandSandbox.passcode)'"
        let without = try sandbox(window, variables: ["PROTECTFS_ASKPASS": "bin/askpass"])
        #expect(try without.run("unlock").status == 64, "no display")
        let with = try sandbox(
            window, variables: display.merging(["PROTECTFS_ASKPASS": "bin/askpass"]) { $1 })
        let done = try with.run("unlock")
        #expect(done.status == 0, "\(done.errors)")
        #expect(done.errors.contains("protectfs: note: there is no terminal: 'bin/askpass' asks for the passcode"))
        try with.run("lock")
        let typed = try PseudoTerminal.run(
            ["unlock"], in: with, [.expect("Passcode: "), .send(CommandSandbox.passcode + "\n")])
        #expect(typed.status == 0)
        #expect(!typed.shown.contains("askpass"), "a terminal is asked first")
    }

    @Test("Without that variable it is pinentry, from PATH")
    func pinentryFromPath() throws {
        let bed = try sandbox(
            pinentry("D \(CommandSandbox.passcode)\\nOK\\n"), named: "pinentry", variables: display)
        let done = try bed.shell("PATH=\"$PWD/bin:$PATH\" exec \"$PROTECTFS\" unlock")
        #expect(done.status == 0, "\(done.errors)")
        #expect(done.errors.contains("protectfs: note: there is no terminal: 'pinentry' asks for the passcode"))
        let said = String(decoding: try bed.stored("said"), as: UTF8.self)
        #expect(said == "SETTITLE protectfs\nSETPROMPT Passcode:\nGETPIN\n")
    }

    @Test(
        "pinentry's answers are understood: in pieces, with escapes, nothing, errors",
        arguments: [
            ("D a pass\\nS PIN_REPEATED\\nD code%%20for tests\\nOK\\n", Int32(0)),
            ("D a%%20passcode for test%%73\\nOK\\n", 0), ("D wrong\\nOK\\n", 77), ("OK\\n", 64),
            ("ERR 83886179 Operation cancelled <Pinentry>\\n", 130), ("ERR 83886142 Timeout <Pinentry>\\n", 130),
            ("ERR 83918929 No display <Pinentry>\\n", 71), ("ERR\\nERR \\n", 71), ("", 71),
        ])
    func pinentryAnswers(answer: String, status: Int32) throws {
        // With no answer it ends.
        let script = pinentry(answer).replacing("GETPIN) printf ''", with: "GETPIN) exit")
        let sandbox = try sandbox(script, named: "pinentry-for-tests")
        let done = try sandbox.run("unlock", "--askpass", "bin/pinentry-for-tests")
        #expect(done.status == status, "\(done.errors)")
        #expect(!done.errors.contains("a passcode for"))
    }

    @Test("A pinentry that ends at once, or is none, is an error")
    func noPinentry() throws {
        for script in ["exit", "echo 'what?'", "echo OK; exec sleep 0"] {
            let sandbox = try sandbox(script, named: "pinentry")
            #expect(try sandbox.run("unlock", "--askpass", "bin/pinentry").status == 71, "\(script)")
        }
    }

    @Test("On a terminal pinentry is told which one it is")
    func pinentryOnTerminal() throws {
        let sandbox = try sandbox(pinentry("D \(CommandSandbox.passcode)\\nOK\\n"), named: "pinentry-curses")
        let seen = try PseudoTerminal.run(["unlock", "--askpass", "bin/pinentry-curses"], in: sandbox, [])
        #expect(seen.status == 0, "\(seen.shown)")
        #expect(String(decoding: try sandbox.stored("said"), as: UTF8.self).hasPrefix("OPTION ttyname=/dev/"))
    }

    @Test("A new passcode is asked for twice, in the same way")
    func new() throws {
        let sandbox = try sandbox("echo \"$*\" >>asked; echo another one")
        let made = try sandbox.run("init", "--keybag", "second", "--askpass", "bin/askpass")
        #expect(made.status == 0, "\(made.errors)")
        #expect(
            String(decoding: try sandbox.stored("asked"), as: UTF8.self)
                == "protectfs: New passcode:\nprotectfs: Again:\n")
        sandbox.evictKeys(of: sandbox.path("second"))
    }
}
