import Foundation
import Testing

/// Real vi, on a terminal, with a configuration that wants everything on disk.
@Suite("edit, with vim", .enabled(if: hasVim, "vi is not here, or is not vim"))
struct EditorTests {
    private let bed: EditBed
    init() throws {
        bed = try EditBed(["TERM": "xterm"])
        let home = bed.sandbox.path("home")
        for name in ["backup", "swap", "undo"] {
            try FileManager.default.createDirectory(atPath: "\(home)/\(name)", withIntermediateDirectories: true)
        }
        let options = """
            set nocompatible backup writebackup backupdir=~/backup directory=~/swap updatecount=1 report=0
            silent! set undofile undodir=~/undo
            silent! set viminfo='100,<500
            """
        try options.write(toFile: home + "/.vimrc", atomically: true, encoding: .utf8)
    }

    /// Changes a line, saves, changes another one, yanks it, runs a command on the text, saves, quits.
    private func converse(_ editor: String, _ ending: [PseudoTerminal.Step]) throws -> PseudoTerminal {
        try bed.make("file", "one")
        return try PseudoTerminal.run(
            ["edit", "file", "--editor", editor], in: bed.sandbox,
            [
                .expect("one \(bed.marker)"), .send("yyp:w\r"), .expect("written"),
                .send(":%!cat\r"), .expect("filtered"), .send("Gothree\u{1B}:w\r"), .expect("written"),
            ] + ending)
    }

    private var expected: String { bed.text("one") + bed.text("one") + "three\n" }

    @Test(
        "Nothing is left on disk: no swap, backup, undo or viminfo file",
        arguments: ["vi", "'vi'", "TERM=xterm \\vi", "\"a directory\"/vi -N"])
    func leavesNothing(editor: String) throws {
        // Some systems have a script there, whose own name says nothing of vim.
        try FileManager.default.createDirectory(
            atPath: bed.sandbox.path("a directory"), withIntermediateDirectories: false)
        try TestProgram.write("#!/bin/sh\nexec /usr/bin/vi \"$@\"\n", at: bed.sandbox.path("a directory/vi"))
        let seen = try converse(editor, [.send(":q\r")])
        #expect(seen.status == 0, "\(seen.shown)")
        #expect(try bed.contents("file") == expected)
        try bed.expectNoPlaintext()
        #expect(try bed.sandbox.shell("find home -type f").text == "home/.vimrc\n")
    }

    @Test("Nothing is left when vim, or protectfs, is ended by a signal", arguments: [SIGTERM, SIGHUP, SIGKILL])
    func ended(signal: Int32) throws {
        let seen = try converse("vi", [.signal(signal)])
        #expect(seen.status == (signal == SIGKILL ? 137 : 130), "\(seen.shown)")
        #expect(try eventually { try FileManager.default.contentsOfDirectory(atPath: bed.runtime).isEmpty })
        // SIGKILL may come before the save has been noticed.
        if signal != SIGKILL { #expect(try bed.contents("file") == expected) }
        try bed.expectNoPlaintext()
    }

    @Test("A lock while vim runs: :w goes on working, before and after an unlock")
    func locked() throws {
        let unlock = "printf '\\%s' '\(CommandSandbox.passcode)' | $PROTECTFS unlock --passcode-fd 0"
        let seen = try converse(
            "vi",
            [
                .send(":!$PROTECTFS lock; while [ -e % ]; do sleep 0.1; done; echo no copy\r"), .expect("\nno copy"),
                .send("\r"), .send("Gofour\u{1B}:w\r"), .expect("written"),
                .send(":!until [ -e file.edited ]; do sleep 0.1; done; \(unlock); echo open\r"), .expect("\nopen"),
                .send("\r"), .send("Gofive\u{1B}:w\r"), .expect("written"), .send(":q\r"),
            ])
        #expect(seen.status == 0, "\(seen.shown)")
        #expect(try bed.contents("file") == expected + "four\nfive\n")
        #expect(try bed.className("file") == "complete")
        #expect(!FileManager.default.fileExists(atPath: bed.sandbox.path("file.edited")))
        try bed.expectNoPlaintext()
    }

    @Test("An editor that is not told leaves the marker on disk: the search finds it")
    func control() throws {
        let seen = try converse("env vi", [.send(":q\r")])
        #expect(seen.status == 0, "\(seen.shown)")
        #expect(try bed.filesWithMarker() != [])
    }
}

private let hasVim: Bool = {
    let done = try? EndToEndRun(["vi", "--version"], environment: ["PATH": "/usr/bin:/bin"])
    return done?.text.hasPrefix("VIM - ") ?? false
}()
