import DataProtection
import Foundation
import SystemPackage
import Testing

@Suite("edit")
struct EditTests {
    private let bed: EditBed
    private var sandbox: CommandSandbox { bed.sandbox }
    init() throws { bed = try EditBed() }

    @Test(
        "Saved text is sealed with the file's mode and class; class none becomes first-unlock",
        arguments: EndToEndUser.classes)
    func writesBack(className: String) throws {
        try bed.make("file", "one", className)
        #expect(chmod(sandbox.path("file"), 0o640) == 0)
        let done = try bed.edit("file", by: "grep -q \"one $MARKER\" \"$1\"; echo \"two $MARKER\" >>\"$1\"")
        #expect(done.status == 0, "\(done.errors)")
        #expect(done.output.isEmpty && done.errors.isEmpty)
        #expect(try bed.contents("file") == bed.text("one") + bed.text("two"))
        #expect(try bed.className("file") == (className == "none" ? "first-unlock" : className))
        #expect(try sandbox.shell("stat -c %a file").text == "640\n")
        try bed.expectNoPlaintext()
    }

    @Test("A file that was only looked at is not touched")
    func unchanged() throws {
        try bed.make("file", "one")
        let before = try sandbox.shell("stat -c '%i %z' file").text
        #expect(try bed.edit("file", by: "cp \"$1\" \"$1.new\"; mv \"$1.new\" \"$1\"").status == 0)
        #expect(try sandbox.shell("stat -c '%i %z' file").text == before)
        try bed.expectNoPlaintext()
    }

    @Test("A new file is made when the editor saves, and not before")
    func newFile() throws {
        #expect(try bed.edit("new", by: "test ! -e \"$1\"").status == 0)
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("new")))
        #expect(try bed.edit("new", by: "echo $MARKER >\"$1\"").status == 0)
        #expect(try bed.className("new") == "complete")
        #expect(try bed.edit("secret", ["--class", "unless-open"], by: "echo $MARKER >\"$1\"").status == 0)
        #expect(try bed.className("secret") == "unless-open")
        #expect(try bed.contents("secret") == bed.marker + "\n")
        #expect(try bed.edit("empty", by: ": >\"$1\"").status == 0)
        #expect(try bed.contents("empty") == "")
        try bed.expectNoPlaintext()
    }

    @Test("The copy has the file's name, whatever it is, in a private directory with the temporary files")
    func surroundings() throws {
        let name = "it's $(touch run) \"a\"; b.txt"
        try bed.make(name, "one")
        let script = """
            test "$(basename "$1")" = "$NAME"
            test "$(stat -c %a "$1")" = 600
            test "$(stat -c %a "$(dirname "$1")/..")" = 700
            case $1 in "$XDG_RUNTIME_DIR"/*) ;; *) exit 1 ;; esac
            case $TMPDIR in "$XDG_RUNTIME_DIR"/*) test -d "$TMPDIR" ;; *) exit 1 ;; esac
            test "$(ulimit -c)" = 0
            """
        let done = try bed.edit(name, by: "NAME='it'\\''s $(touch run) \"a\"; b.txt'\n" + script)
        #expect(done.status == 0, "\(done.errors)")
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("run")))
        try bed.expectNoPlaintext()
    }

    @Test("Each save is sealed while the editor runs: in place, and by rename")
    func eachSave() throws {
        try bed.make("file", "one")
        let script = """
            echo "two $MARKER" >"$1"; until_reads file "two $MARKER"
            echo "three $MARKER" >"$1.new"; mv "$1.new" "$1"; until_reads file "three $MARKER"
            exit 3
            """
        let done = try bed.edit("file", by: script)
        #expect(done.status == 130)
        #expect(done.errors.contains("status 3"))
        #expect(try bed.contents("file") == bed.text("three"))
        try bed.expectNoPlaintext()
    }

    @Test("An editor that fails leaves the file as it saved it last")
    func failingEditor() throws {
        try bed.make("file", "one")
        let before = try sandbox.stored("file")
        #expect(try bed.edit("file", by: "exit 1").status == 130)
        #expect(try bed.edit("file", by: "kill -SEGV $$").status == 130)
        #expect(try sandbox.run("edit", "file", "--editor", "no-such-editor").status == 66)
        #expect(try sandbox.stored("file") == before)
        try bed.expectNoPlaintext()
    }

    @Test("VISUAL comes before EDITOR, and --editor before both; options and quotes are the shell's")
    func choice() throws {
        try bed.make("file", "one")
        let start = "\"$PROTECTFS\" edit file"
        for (variables, options, expected) in [
            ("EDITOR='echo editor; :'", "", "editor\n"),
            ("EDITOR='echo editor; :' VISUAL='echo \"the  visual\"; :'", "", "the  visual\n"),
            ("EDITOR='echo editor; :' VISUAL='echo visual; :'", "--editor 'echo option; :'", "option\n"),
        ] {
            let done = try sandbox.shell("\(variables) \(start) \(options)")
            #expect(done.text == expected, "\(done.errors)")
        }
    }

    @Test("A file that cannot be edited is refused before the editor starts")
    func refused() throws {
        try sandbox.put("plain", at: "plain")
        let plain = try bed.edit("plain", by: ": >started")
        #expect(plain.status == 65 && plain.errors.contains("protectfs protect 'plain'"), "\(plain.errors)")
        try bed.make("file", "one")
        #expect(try bed.edit("file", ["--class", "none"], by: ": >started").status == 77)
        #expect(try bed.edit("missing/file", by: ": >started").status == 66)
        #expect(symlink("nowhere", sandbox.path("dangling")) == 0)
        #expect(try bed.edit("dangling", by: ": >started").status == 66)
        #expect(try bed.edit("home", by: ": >started").status == 77)
        try sandbox.run("lock")
        #expect(try bed.edit("file", by: ": >started").status == 75)
        #expect(try bed.edit("new", ["--class", "complete"], by: ": >started").status == 75)
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("started")))
        try bed.expectNoPlaintext()
    }

    @Test("A file that does not fit into a quarter of the memory is refused: status 71")
    func tooLarge() throws {
        try bed.make("file", "one")
        let keybag = try Keybag(at: FilePath(sandbox.keybagDirectory))
        let file = try ProtectedFile.open(FilePath(sandbox.path("file")), .readWrite, keybag: keybag)
        try file.truncate(to: 1 << 50)
        try file.close()
        for arguments in [
            ["edit", "file", "--editor", "touch started; :"], ["run", "file", "--", "touch", "started"],
        ] {
            let done = try sandbox.run(arguments)
            #expect(done.status == 71 && done.errors.contains("too large"), "\(done.errors)")
        }
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("started")))
        try bed.expectNoPlaintext()
    }

    @Test("A link is followed, and stays")
    func link() throws {
        try bed.make("file", "one")
        #expect(symlink("file", sandbox.path("link")) == 0)
        #expect(try bed.edit("link", by: "echo two >\"$1\"").status == 0)
        #expect(try bed.contents("file") == "two\n")
        #expect(try sandbox.shell("readlink link").text == "file\n")

        #expect(Foundation.link(sandbox.path("file"), sandbox.path("other")) == 0)
        #expect(try bed.edit("file", by: "echo three >\"$1\"").errors.contains("has 2 names"))
        #expect(try bed.contents("file") + bed.contents("other") == "three\ntwo\n")
    }

    // MARK: somebody else

    @Test("Text that somebody else has written is left as it is, and ours is saved beside it")
    func conflict() throws {
        try bed.make("file", "one")
        let done = try bed.edit("file", by: "echo theirs | \"$PROTECTFS\" write file; echo \"ours $MARKER\" >\"$1\"")
        #expect(done.status == 75, "\(done.errors)")
        #expect(done.errors.contains("'file.edited'"))
        #expect(try bed.contents("file") == "theirs\n")
        #expect(try bed.contents("file.edited") == bed.text("ours"))
        #expect(try bed.className("file.edited") == "complete")

        // A name that is taken is left alone; a file that has gone is not made again.
        let again = try bed.edit("file", by: "rm file; echo \"again $MARKER\" >\"$1\"")
        #expect(again.status == 75)
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("file")))
        #expect(try bed.contents("file.edited") == bed.text("ours"))
        #expect(try bed.contents("file.edited-2") == bed.text("again"))
        try bed.expectNoPlaintext()
    }

    @Test("A weaker file in its place does not weaken the text: the copy goes at the lock, ours keeps its class")
    func replacedByWeaker() throws {
        try bed.make("file", "one")
        let done = try bed.edit(
            "file",
            by: """
                echo theirs | "$PROTECTFS" write --class none other; mv other file; sleep 2
                echo "two $MARKER" >"$1"; until_there file.edited
                "$PROTECTFS" lock; until_gone "$1"
                """)
        #expect(done.status == 75, "\(done.errors)")
        #expect(try bed.className("file.edited") == "complete")
        try bed.expectNoPlaintext()
    }

    @Test("A change of class or mode is no conflict")
    func classChangedMeanwhile() throws {
        try bed.make("file", "one", "first-unlock")
        let done = try bed.edit(
            "file", by: "\"$PROTECTFS\" class file complete; chmod 640 file; echo \"two $MARKER\" >\"$1\"")
        #expect(done.status == 0, "\(done.errors)")
        #expect(try bed.contents("file") == bed.text("two"))
        #expect(try bed.className("file") == "complete")
        try bed.expectNoPlaintext()
    }
}
