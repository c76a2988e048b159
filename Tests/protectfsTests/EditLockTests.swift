import Foundation
import Testing

@Suite("edit, and a lock while the editor runs")
struct EditLockTests {
    private let bed: EditBed
    private var sandbox: CommandSandbox { bed.sandbox }
    init() throws { bed = try EditBed() }

    /// What the hint says to do after an unlock.
    private func placing(_ done: Finished) -> String {
        done.errors.split(separator: "\n").last.flatMap { $0.split(separator: "unlock: ").last }.map(String.init) ?? ""
    }

    @Test("The plain copy is removed; later saves are sealed beside the file, and can be put in place")
    func savedAfterLock() throws {
        try bed.make("file", "one")
        let script = """
            echo "two $MARKER" >"$1"; until_reads file "two $MARKER"; echo "$MARKER" >"$TMPDIR/swap"
            "$PROTECTFS" lock; until_gone "$1"; until_gone "$TMPDIR/swap"
            ! grep -ra "$MARKER" "$XDG_RUNTIME_DIR"
            echo "three $MARKER" >"$1"; until_gone "$1"; until_there file.edited
            echo "four $MARKER" >"$1.new"; mv "$1.new" "$1"; until_gone "$1"
            ! grep -ra "$MARKER" "$XDG_RUNTIME_DIR"
            """
        let done = try bed.edit("file", by: script)
        #expect(done.status == 75, "\(done.errors)")
        #expect(try bed.className("file.edited") == "unless-open")
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("file.edited-2")))
        try bed.expectNoPlaintext()

        try sandbox.unlock()
        #expect(try bed.contents("file") == bed.text("two"))
        #expect(try bed.contents("file.edited") == bed.text("four"))
        let placed = try sandbox.shell("protectfs() { \"$PROTECTFS\" \"$@\"; }; \(placing(done))")
        #expect(placed.status == 0, "\(placed.errors) \(done.errors)")
        #expect(try bed.contents("file") == bed.text("four"))
        #expect(try bed.className("file") == "complete")
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("file.edited")))
    }

    @Test("A save that the lock overtakes is not lost")
    func savedBeforeLock() throws {
        try bed.make("file", "one")
        let done = try bed.edit(
            "file", by: "\"$PROTECTFS\" lock; echo \"two $MARKER\" >\"$1\"; until_gone \"$1\"; until_there file.edited")
        #expect(done.status == 75, "\(done.errors)")
        try sandbox.unlock()
        #expect(try bed.contents("file") == bed.text("one"))
        #expect(try bed.contents("file.edited") == bed.text("two"))
        try bed.expectNoPlaintext()
    }

    @Test("An editor that writes while the lock comes is waited for")
    func writingWhileLocked() throws {
        try bed.make("file", "one")
        let script = """
            exec 5>"$1"; echo "two $MARKER" >&5; "$PROTECTFS" lock; sleep 1.5; echo "end $MARKER" >&5; exec 5>&-
            until_gone "$1"; until_there file.edited
            """
        let done = try bed.edit("file", by: script)
        #expect(done.status == 75, "\(done.errors)")
        try sandbox.unlock()
        #expect(try bed.contents("file.edited") == bed.text("two") + bed.text("end"))
        try bed.expectNoPlaintext()
    }

    @Test("Half of a save takes the place of nothing, however long the editor takes and whatever comes in between")
    func slowSave() throws {
        try bed.make("file", "one")
        let script = """
            exec 5>"$1"; echo "two $MARKER" >&5; "$PROTECTFS" lock; sleep 4; unlock; echo "end $MARKER" >&5; exec 5>&-
            """
        let done = try bed.edit("file", by: script)
        #expect(done.status == 0, "\(done.errors)")
        #expect(try bed.contents("file") == bed.text("two") + bed.text("end"))
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("file.edited")))
        try bed.expectNoPlaintext()
    }

    @Test("Text of a program that outlives the editor goes beside the file, and a lock knows of the program")
    func leftBehind() throws {
        try bed.make("file", "one")
        let script = """
            mkfifo go
            (exec 5>"$1"; echo "two $MARKER" >&5; : >begun; read _ <go
                "$PROTECTFS" lock --require-clean >clean 2>&1 || echo $? >>clean
            ) >/dev/null 2>&1 &
            until_there begun
            """
        let done = try bed.edit("file", by: script)
        #expect(done.status == 75, "\(done.errors)")
        #expect(done.errors.contains("a program still writes to the copy of 'file'"), "\(done.errors)")
        #expect(try bed.contents("file") == bed.text("one"))
        #expect(try bed.contents("file.edited") == bed.text("two"))
        let lock = try sandbox.shell(
            "echo >go; for i in $(seq 200); do grep -q '^[0-9]' clean && break; sleep 0.05; done; cat clean")
        #expect(lock.text.hasSuffix("\n75\n"), "\(lock.text)")
        #expect(lock.text.contains("still hold"), "\(lock.text)")
    }

    @Test("A copy that cannot be read is an error, and not a text that was not saved")
    func unreadableCopy() throws {
        try bed.make("file", "one")
        let script = "echo \"two $MARKER\" >\"$TMPDIR/new\"; rm \"$1\"; ln -s \"$TMPDIR/new\" \"$1\""
        let done = try bed.edit("file", by: script)
        #expect(done.status != 0, "\(done.errors)")
        #expect(done.errors.contains("what the editor saved is discarded"), "\(done.errors)")
        #expect(try bed.contents("file") == bed.text("one"))
    }

    @Test("After an unlock everything is as before: saved into the file, and nothing is left beside it")
    func unlockedAgain() throws {
        try bed.make("file", "one")
        let saved = try bed.edit(
            "file",
            by: """
                "$PROTECTFS" lock; until_gone "$1"; echo "two $MARKER" >"$1"; until_there file.edited; until_gone "$1"
                unlock; echo "three $MARKER" >"$1"; until_reads file "three $MARKER"; until_gone file.edited
                """)
        #expect(saved.status == 0, "\(saved.errors)")
        #expect(try bed.contents("file") == bed.text("three"))
        #expect(try bed.className("file") == "complete")

        let closed = try bed.edit(
            "file",
            by: """
                "$PROTECTFS" lock; until_gone "$1"; echo "four $MARKER" >"$1"; until_there file.edited; until_gone "$1"
                unlock
                """)
        #expect(closed.status == 0, "\(closed.errors)")
        #expect(try bed.contents("file") == bed.text("four"))
        #expect(try bed.className("file") == "complete")
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("file.edited")))
        try bed.expectNoPlaintext()
    }

    @Test("A rotation before or after the lock is no change by somebody else", arguments: [true, false])
    func rotated(isBefore: Bool) throws {
        try bed.make("file", "one")
        let rotate = "rotate --root . --passcode-fd 3 3<passcode >/dev/null"
        try sandbox.put(CommandSandbox.passcode, at: "passcode")
        let done = try bed.edit(
            "file",
            by: """
                \(isBefore ? "\"$PROTECTFS\" \(rotate)" : "")
                "$PROTECTFS" lock; until_gone "$1"; echo "two $MARKER" >"$1"; until_there file.edited; until_gone "$1"
                unlock; \(isBefore ? "" : "\"$PROTECTFS\" \(rotate)")
                """)
        #expect(done.status == 0, "\(done.errors)")
        #expect(try bed.contents("file") == bed.text("two"))
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("file.edited")))
    }

    @Test("An unless-open file loses its copy too, and is written to while locked")
    func unlessOpen() throws {
        try bed.make("file", "one", "unless-open")
        let done = try bed.edit(
            "file", by: "\"$PROTECTFS\" lock; until_gone \"$1\"; echo \"two $MARKER\" >\"$1\"; until_gone \"$1\"")
        #expect(done.status == 0, "\(done.errors)")
        try sandbox.unlock()
        #expect(try bed.contents("file") == bed.text("two"))
        #expect(try bed.className("file") == "unless-open")
        try bed.expectNoPlaintext()
    }

    @Test("lock --require-clean fails until the editor has ended, and names the file and the editor")
    func requireClean() throws {
        try bed.make("file", "one")
        let done = try bed.edit(
            "file",
            by: """
                "$PROTECTFS" lock --require-clean 2>locked || echo $? >>locked
                until_gone "$1"
                "$PROTECTFS" lock --require-clean 2>/dev/null || echo $? >>locked
                """)
        #expect(done.status == 0, "\(done.errors)")
        let locked = String(decoding: try sandbox.stored("locked"), as: UTF8.self)
        let warning = locked.split(separator: "\n").first ?? ""
        #expect(warning.hasPrefix("protectfs: warning: 'sh' (process "), "\(locked)")
        #expect(warning.hasSuffix(") still holds plaintext of '\(sandbox.path("file"))'"), "\(locked)")
        #expect(locked.hasSuffix("\n75\n75\n"), "\(locked)")
        #expect(try sandbox.run("lock", "--require-clean").status == 0)
    }

    @Test("Files that a lock does not shut go on", arguments: ["first-unlock", "none"])
    func goesOn(className: String) throws {
        try bed.make("file", "one", className)
        let done = try bed.edit(
            "file",
            by: "\"$PROTECTFS\" lock; sleep 2; echo \"two $MARKER\" >>\"$1\"; until_reads file \"$(cat \"$1\")\"")
        #expect(done.status == 0, "\(done.errors)")
        #expect(try bed.contents("file") == bed.text("one") + bed.text("two"))
        #expect(try bed.className("file") == "first-unlock")
        try bed.expectNoPlaintext()
    }
}
