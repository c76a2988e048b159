import Foundation
import Testing

/// A rotation beside people, signals, locks and programs that have files open.
@Suite("rotate beside others")
struct RotateBesideTests {
    private let sandbox: CommandSandbox
    private static let passcode = Data(CommandSandbox.passcode.utf8)
    private static let count = 300

    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    private func rotate(_ options: String...) throws -> Finished {
        try sandbox.run(["rotate", "--passcode-fd", "3"] + options, passcodes: Self.passcode)
    }

    /// Many files under the first keys, and a keybag with second ones.
    private func tree() throws {
        for number in 0..<Self.count { try sandbox.put("\(number)", at: "tree/\(number)") }
        try sandbox.put("", at: "empty/x")
        #expect(try sandbox.run("protect", "--recursive", "--yes", "--class", "complete", "tree").status == 0)
        #expect(try rotate("--root", "empty").status == 0)
    }

    /// Starts the pass over the files, and waits until it has begun.
    private func begun() throws -> Process {
        let process = sandbox.start(
            CommandSandbox.executable, ["rotate", "--resume", "--root", "tree", "--jobs", "1"],
            input: FileHandle.nullDevice)
        process.standardError = FileHandle.nullDevice
        let before = try sandbox.stored("tree/0")
        try process.run()
        #expect(try waits { try sandbox.stored("tree/0") != before || !process.isRunning })
        return process
    }

    private func expectDone() throws {
        let rest = try sandbox.run("rotate", "--resume", "--root", "tree", "--json")
        #expect(rest.status == 0, "\(rest.errors)")
        let summary = try #require((rest.json() as? [String: Any])?["summary"] as? [String: Any])
        #expect((summary["rewrapped"] as? Int ?? 0) + (summary["current"] as? Int ?? 0) == Self.count)
        #expect(try rotate("--forget", "--yes", "--root", "tree").status == 0)
        for number in [0, 1, 150, Self.count - 1] {
            #expect(try sandbox.run("cat", "tree/\(number)").text == "\(number)")
        }
    }

    @Test("Ctrl-C stops between files, and another pass does the rest")
    func interrupted() throws {
        try tree()
        let process = try begun()
        process.interrupt()
        process.waitUntilExit()
        #expect([0, 130].contains(process.terminationStatus), "it may have been done already")
        try expectDone()
    }

    @Test("A lock stops it, and after an unlock another pass does the rest")
    func lockedMeanwhile() throws {
        try tree()
        let process = try begun()
        try sandbox.run("lock")
        process.waitUntilExit()
        #expect([0, 75].contains(process.terminationStatus), "it may have been done already")
        #expect(try sandbox.run("cat", "tree/\(Self.count - 1)").status == 75)
        try sandbox.unlock()
        try expectDone()
    }

    @Test("kill -9 in the middle of it: every file opens, and another pass does the rest")
    func killed() throws {
        try tree()
        let process = try begun()
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        for number in 0..<Self.count where number % 20 == 0 {
            #expect(try sandbox.run("cat", "tree/\(number)").text == "\(number)")
        }
        try expectDone()
    }

    @Test("A program that writes to a file all the while loses nothing", arguments: ["complete", "unless-open"])
    func writer(protectionClass: String) throws {
        try sandbox.put("", at: "tree/plain")
        try sandbox.protectedFile("tree/log", Data("first\n".utf8), protectionClass)
        let pipe = Pipe()
        let process = sandbox.start(CommandSandbox.executable, ["write", "--append", "tree/log"], input: pipe)
        try process.run()
        try pipe.fileHandleForWriting.write(contentsOf: Data("second\n".utf8))
        #expect(try waits { try sandbox.run("cat", "tree/log").text == "first\nsecond\n" })
        #expect(try rotate("--root", "tree").status == 0)
        try pipe.fileHandleForWriting.write(contentsOf: Data("third\n".utf8))
        #expect(try waits { try sandbox.run("cat", "tree/log").text == "first\nsecond\nthird\n" })
        #expect(try rotate("--forget", "--yes", "--root", "tree").status == 0)
        try pipe.fileHandleForWriting.write(contentsOf: Data("fourth\n".utf8))
        try pipe.fileHandleForWriting.close()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        #expect(try sandbox.run("cat", "tree/log").text == "first\nsecond\nthird\nfourth\n")
        #expect(try sandbox.run("verify", "tree/log").status == 0)
        #expect(try sandbox.shell("\"$PROTECTFS\" explain --stored tree/log").text.contains("class key generation 2"))
    }

    @Test("At a terminal forgetting asks for a word, and then for the passcode", arguments: ["forget", "yes"])
    func terminal(answer: String) throws {
        try sandbox.put("", at: "empty/x")
        #expect(try rotate("--root", "empty").status == 0)
        let steps: [PseudoTerminal.Step] = [
            .expect("Class keys of generation 1 in"), .expect("To go on, type forget: "), .send(answer + "\n"),
        ]
        let passcode: [PseudoTerminal.Step] = [
            .expect("Passcode: "), .look, .send(CommandSandbox.passcode + "\n"),
        ]
        let seen = try PseudoTerminal.run(
            ["rotate", "--forget", "--root", "empty"], in: sandbox, steps + (answer == "forget" ? passcode : []))
        #expect(seen.status == (answer == "forget" ? 0 : 130), "\(seen.shown)")
        if answer == "forget" { #expect(seen.echo == [false, true]) }
        let again = try rotate("--forget", "--yes", "--root", "empty")
        #expect(again.errors.contains("there are no retired class keys") == (answer == "forget"))
    }

    @Test("At a terminal the new recovery code is shown, and a group of it asked back, before anything changes")
    func newCode() throws {
        let old = try sandbox.makeRecoveryCode()
        try sandbox.put("", at: "empty/x")
        let before = try sandbox.keybagFiles()
        let asked: [PseudoTerminal.Step] = [.expect("Passcode: "), .send(CommandSandbox.passcode + "\n")]
        let wrong: [PseudoTerminal.Step] = [.expect("type group "), .send("UUUU\n"), .expect("that is not group ")]
        let refused = try PseudoTerminal.run(["rotate", "--root", "empty"], in: sandbox, asked + wrong + wrong + wrong)
        #expect(refused.status == 64)
        #expect(try sandbox.keybagFiles()["keybag.0"] == before["keybag.0"])
        let done = try PseudoTerminal.run(
            ["rotate", "--root", "empty"], in: sandbox,
            asked + [.expect("type group "), .expect(": "), .confirmGroup])
        let new = try #require(done.recoveryCode)
        #expect(done.status == 0 && new != old)
        #expect(try sandbox.recover(with: old).status == 77)
        #expect(try sandbox.recover(with: new).status == 0)
    }
}
