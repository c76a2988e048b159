import Foundation
import TestEffort
import Testing

@Suite("erase")
struct EraseTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
        try sandbox.protectedFile("file")
    }

    private func uuid() throws -> String {
        let text = try sandbox.run("status", "--json").text
        return try String(#require(text.firstMatch(of: /"uuid": "([^"]*)"/)).output.1)
    }

    private func isInRing(_ uuid: String) throws -> Bool {
        try [1, 2].contains {
            try sandbox.shell("keyctl search @u user protectfs:\(uuid):\($0) >&2").status == 0
        }
    }

    @Test("--yes: silent; its files belong to a keybag that is not available then")
    func yes() throws {
        let uuid = try uuid()
        #expect(try isInRing(uuid))
        let done = try sandbox.run("erase", "--yes")
        #expect(done.status == 0 && done.text + done.errors == "")
        #expect(try !isInRing(uuid))
        #expect(!FileManager.default.fileExists(atPath: sandbox.keybagDirectory))
        let read = try sandbox.run("cat", "file")
        #expect(read.status == 66)
        #expect(read.errors.contains("'file' belongs to keybag \(uuid), which is not available to you"))
        #expect(try sandbox.run("erase", "--yes").status == 66)
        // The same with another keybag in its place.
        #expect(try sandbox.run("init", "--passcode-fd", "3", passcodes: Data("new".utf8)).status == 0)
        #expect(try sandbox.run("cat", "file").errors.contains("belongs to keybag \(uuid)"))
    }

    @Test("Without a terminal it asks for --yes, and erases nothing")
    func noTerminal() throws {
        let before = try sandbox.keybagFiles()
        let done = try sandbox.run("erase")
        #expect(done.status == 77)
        #expect(done.errors.contains("--yes"))
        #expect(try sandbox.keybagFiles() == before)
        #expect(try isInRing(uuid()))
    }

    @Test(
        "At a terminal it says what is lost, and the word must be typed",
        arguments: ["yes\n", "\n", "erased\n", "\u{3}"])
    func declined(answer: String) throws {
        let before = try sandbox.keybagFiles()
        let seen = try PseudoTerminal.run(["erase"], in: sandbox, [.expect("type erase: "), .send(answer)])
        #expect(seen.status == 130)
        #expect(try sandbox.keybagFiles() == before)
        #expect(try seen.shown.contains(uuid()) && seen.shown.contains(sandbox.keybagDirectory))
        #expect(seen.shown.contains("can never be read again"))
    }

    @Test("The word erases")
    func word() throws {
        let uuid = try uuid()
        let seen = try PseudoTerminal.run(["erase"], in: sandbox, [.expect("type erase: "), .send("erase\n")])
        #expect(seen.status == 0, "\(seen.shown)")
        #expect(!FileManager.default.fileExists(atPath: sandbox.keybagDirectory))
        #expect(try !isInRing(uuid))
    }

    @Test("It lists who still holds plaintext, as lock does")
    func remains() throws {
        try sandbox.unlock()
        try sandbox.protectedFile("a")
        let done = try sandbox.shell(
            """
            mkfifo ready end
            "$PROTECTFS" run a -- sh -c 'echo >ready; read -r _ <end' &
            read -r _ <ready
            "$PROTECTFS" erase --yes; echo $?
            echo >end
            wait
            """)
        #expect(done.text == "0\n", "\(done.errors)")
        #expect(done.errors.hasSuffix(") still holds plaintext of '\(sandbox.path("a"))'\n"), "\(done.errors)")
        #expect(done.errors.split(separator: "\n").count == 1, "\(done.errors)")
    }

    @Test("A keybag that cannot say its name is erased, with a hint for its keys; foreign files are left")
    func nameless() throws {
        for copy in [0, 1] {
            try Data("nothing".utf8).write(to: URL(fileURLWithPath: sandbox.keybagDirectory + "/keybag.\(copy)"))
        }
        let uuid = try FileManager.default.contentsOfDirectory(atPath: sandbox.path("state/protectfs/keybags"))[0]
        defer { _ = try? sandbox.shell("keyctl purge user protectfs:\(uuid):1; keyctl purge user protectfs:\(uuid):2") }
        try FileManager.default.removeItem(atPath: sandbox.path("state/protectfs/keybags"))
        try Data("x".utf8).write(to: URL(fileURLWithPath: sandbox.keybagDirectory + "/letter"))
        let done = try sandbox.run("erase", "--yes")
        #expect(done.status == 0)
        #expect(done.errors.contains("protectfs lock --all"))
        #expect(done.errors.contains("/letter' is not a file of the keybag and was left"))
        #expect(try sandbox.keybagFiles().keys.sorted() == ["letter"])
    }

    @Test(
        "Killed at any of its calls, the next one finishes",
        .enabled(if: SystemCallTrace.isPossible, SystemCallTrace.whyNot),
        arguments: ["pwrite64", "fsync", "unlink", "unlinkat", "rmdir", "keyctl"])
    func killed(call: String) throws {
        var kills = 0
        // A slice of them.
        for number in 1... where number == 1 || Effort.includes(number) {
            let uuid = try uuid()
            let inject = "-e trace=\(call) -e inject=\(call):signal=KILL:when=\(number)"
            let done = try sandbox.shell("strace -f -qq -o /dev/null \(inject) \"$PROTECTFS\" erase --yes")
            if done.status == 0 { break }
            #expect(done.status == 137, "\(call) \(number): \(done.errors)")
            let finished = try sandbox.run("erase", "--yes")
            // 66: there was nothing left to do but to say so.
            #expect([0, 66].contains(finished.status), "\(call) \(number): \(finished.errors)")
            try expectGone(uuid, "\(call) \(number)")
            #expect(try sandbox.run("cat", "file").status == 66)
            try sandbox.makeKeybag()
            try sandbox.unlock()
            kills += 1
        }
        #expect(kills > 0, "it makes such a call")
    }

    @Test(
        "A copy that cannot be overwritten is still removed, and so is the other copy",
        .enabled(if: SystemCallTrace.isPossible, SystemCallTrace.whyNot))
    func badBlock() throws {
        let inject =
            "-e trace=pwrite64 -P \"$PROTECTFS_KEYBAG/keybag.0\" -P \"$PROTECTFS_KEYBAG/keybag.1\" "
            + "-e inject=pwrite64:error=EIO:when=1"
        let done = try sandbox.shell("strace -f -qq -o /dev/null \(inject) \"$PROTECTFS\" erase --yes")
        #expect(done.status == 74 && done.errors.contains("keybag."))
        #expect(try sandbox.keybagFiles().keys.filter { $0.hasPrefix("keybag") } == [])
        #expect(try sandbox.run("erase", "--yes").status == 0)
    }

    @Test("Named by a link, it is erased where the link leads")
    func byLink() throws {
        let uuid = try uuid()
        _ = try sandbox.shell("ln -s keybag link")
        let done = try sandbox.run("erase", "--yes", "--keybag", "link")
        #expect(done.status == 0 && done.errors == "")
        try expectGone(uuid, "by a link")
    }

    @Test("It waits for a process that is replacing the keybag and would put a copy back")
    func waits() throws {
        let before = try sandbox.keybagFiles().filter { $0.key.hasPrefix("keybag") }
        let done = try sandbox.shell("flock \"$PROTECTFS_KEYBAG\" timeout 1 \"$PROTECTFS\" erase --yes")
        #expect(done.status == 124, "\(done.errors)")
        #expect(try sandbox.keybagFiles().filter { $0.key.hasPrefix("keybag") } == before)
    }

    private func expectGone(_ uuid: String, _ comment: Comment) throws {
        #expect(!FileManager.default.fileExists(atPath: sandbox.keybagDirectory), comment)
        #expect(try !isInRing(uuid), comment)
        let links = try FileManager.default.contentsOfDirectory(atPath: sandbox.path("state/protectfs/keybags"))
        #expect(links == [], comment)
    }
}
