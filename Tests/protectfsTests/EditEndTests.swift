import Foundation
import Testing

@Suite("edit, and how it can end")
struct EditEndTests {
    private let bed: EditBed
    private var sandbox: CommandSandbox { bed.sandbox }
    init() throws { bed = try EditBed() }

    /// Starts the command in the background, and has it killed when its editor says so.
    private func killed(by signal: String, _ script: String, afterwards: String = "") throws -> Finished {
        let before = """
            mkfifo ready ended; "$@" & pid=$!; read -r _ <ready; kill -\(signal) $pid; wait $pid; echo $?
            \(afterwards)
            """
        return try bed.edit("file", by: script, before: before)
    }

    @Test("SIGTERM and SIGHUP: saved text is kept, the copy is not", arguments: ["TERM", "HUP"])
    func terminated(signal: String) throws {
        try bed.make("file", "one")
        let done = try killed(
            by: signal,
            "trap 'kill $!; exit 1' TERM HUP; echo \"two $MARKER\" >\"$1\"; echo >ready; sleep 15 & wait $!")
        #expect(done.text == "130\n", "\(done.errors)")
        #expect(try bed.contents("file") == bed.text("two"))
        try bed.expectNoPlaintext()
    }

    @Test("It ends with its editor although whoever started it ignores SIGCHLD")
    func childrenIgnored() throws {
        try bed.make("file", "one")
        let ignoring = """
            exec python3 -c "import signal, subprocess, sys
            ignore = lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            sys.exit(subprocess.run(sys.argv[1:], preexec_fn=ignore, timeout=20).returncode)" "$@"
            """
        let done = try bed.edit("file", by: "echo \"two $MARKER\" >\"$1\"", before: ignoring)
        #expect(done.status == 0, "\(done.errors)")
        #expect(try bed.contents("file") == bed.text("two"))
        try bed.expectNoPlaintext()
    }

    @Test("An editor that does not care about SIGTERM is ended after five seconds")
    func insistent() throws {
        try bed.make("file", "one")
        let done = try killed(by: "TERM", "trap '' TERM; echo >ready; exec sleep 15")
        #expect(done.text == "130\n", "\(done.errors)")
        try bed.expectNoPlaintext()
    }

    @Test("kill -9: the guardian removes the copy at once")
    func killedAtOnce() throws {
        try bed.make("file", "one")
        let before = try sandbox.stored("file")
        // The editor goes on; what it saves from now on it cannot save.
        let script = """
            echo "two $MARKER" >"$TMPDIR/swap"; echo >ready
            until_gone "$1"; until_gone "$TMPDIR"; (echo "$MARKER" >"$1") 2>/dev/null || echo >ended
            """
        let done = try killed(by: "KILL", script, afterwards: "read -r _ <ended")
        #expect(done.text == "137\n", "\(done.errors)")
        #expect(try sandbox.stored("file") == before)
        try bed.expectNoPlaintext()
    }

    @Test("Where the guardian was killed too, the next edit, lock or unlock removes the copy", arguments: 0..<3)
    func leftovers(which: Int) throws {
        try bed.make("file", "one")
        // A directory that nobody holds is what is left then; one that is held is in use.
        let script = """
            mkdir -m 700 -p "$XDG_RUNTIME_DIR/protectfs-edit-dead/copy/deep" "$XDG_RUNTIME_DIR/protectfs-edit-alive" other
            echo "$0" >"$XDG_RUNTIME_DIR/protectfs-edit-dead/copy/deep/file"; echo kept >other/file
            ln -s "$PWD/other" "$XDG_RUNTIME_DIR/protectfs-edit-dead/link"
            exec 8<"$XDG_RUNTIME_DIR/protectfs-edit-alive"; flock 8
            unlock() { printf '%s' '\(CommandSandbox.passcode)' | "$PROTECTFS" unlock --passcode-fd 0; }
            \(["\"$PROTECTFS\" edit file --editor true", "\"$PROTECTFS\" lock", "unlock"][which]) || exit
            ls "$XDG_RUNTIME_DIR"; cat other/file
            """
        let done = try sandbox.shell(script, [bed.marker])
        #expect(done.text == "protectfs-edit-alive\nkept\n", "\(done.errors)")
        #expect(rmdir(bed.runtime + "/protectfs-edit-alive") == 0)
        try bed.expectNoPlaintext()
    }

    @Test(
        "Nothing is removed from a directory where others can rename: nobody knows then who gave a directory its name",
        arguments: ["chmod 770", "chown 65534"])
    func leftoversWhereOthersRename(change: String) throws {
        let script = """
            mkdir -m 700 "$XDG_RUNTIME_DIR/protectfs-edit-planted" && echo kept >"$XDG_RUNTIME_DIR/protectfs-edit-planted/file"
            $0 "$XDG_RUNTIME_DIR" 2>/dev/null || exit 99
            "$PROTECTFS" lock || exit
            cat "$XDG_RUNTIME_DIR/protectfs-edit-planted/file"
            """
        let done = try sandbox.shell(script, [change])
        if done.status == 99 {
            return print("EditEndTests.leftoversWhereOthersRename skipped: only root can give a directory away")
        }
        #expect(done.text == "kept\n", "\(done.errors)")
    }

    @Test("Ctrl-C is the editor's", arguments: [("exit 0", 0), ("exit 4", 130)] as [(String, Int32)])
    func interrupted(reaction: String, status: Int32) throws {
        try bed.make("file", "one")
        let script = "trap 'kill $!; echo \"two $0\" >\"$1\"; \(reaction)' INT; echo ready; sleep 15 & wait $!"
        try script.write(toFile: sandbox.path("editor"), atomically: true, encoding: .utf8)
        let seen = try PseudoTerminal.run(
            ["edit", "file", "--editor", "sh -c \"$(cat editor)\" '\(bed.marker)'"], in: sandbox,
            [.expect("ready"), .send("\u{3}")])
        #expect(seen.status == status, "\(seen.shown)")
        #expect(try bed.contents("file") == bed.text("two"))
        #expect(seen.echo == [true])
        try bed.expectNoPlaintext()
    }

    @Test("Without a directory in memory there is no plain copy: status 69")
    func noMemory() throws {
        try bed.make("file", "one")
        let script = """
            unshare -m true 2>/dev/null || exit 99
            exec unshare -m sh -c 'mount --bind home /dev/shm && XDG_RUNTIME_DIR=$PWD/tmp exec "$PROTECTFS" edit file --editor "touch started; :"'
            """
        let done = try sandbox.shell(script)
        if done.status == 99 {
            return print("EditEndTests.noMemory skipped: no mount namespace of our own (unshare -m)")
        }
        #expect(done.status == 69, "\(done.errors)")
        #expect(done.errors.contains("hint: set XDG_RUNTIME_DIR"))
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("started")))
        try bed.expectNoPlaintext()
    }

    @Test(
        "Swap that is on is warned of, unless it is memory itself",
        arguments: [("/dev/zram0", false), ("/dev/sda9", true)])
    func swap(device: String, isWarnedOf: Bool) throws {
        try bed.make("file", "one")
        let script = """
            unshare -m true 2>/dev/null || exit 99
            printf 'Filename\tType\tSize\tUsed\tPriority\n%s partition 1 0 -2\n' "$0" >swaps
            exec unshare -m sh -c 'mount --bind swaps /proc/swaps && exec "$PROTECTFS" edit file --editor true'
            """
        let done = try sandbox.shell(script, [device])
        if done.status == 99 { return print("EditEndTests.swap skipped: no mount namespace of our own (unshare -m)") }
        #expect(done.status == 0, "\(done.errors)")
        #expect(done.errors.contains("protectfs: warning: memory may be swapped to '\(device)'") == isWarnedOf)
        #expect(done.errors.contains("protectfs: hint: ") == isWarnedOf)
    }

    @Test("The copy stays in memory, and out of a directory where others could exchange it")
    func unsafeDirectory() throws {
        try bed.make("file", "one")
        let script = """
            case $1 in "$XDG_RUNTIME_DIR"/*) exit 7 ;; /dev/shm/protectfs-edit-*) ;; *) exit 8 ;; esac
            """
        #expect(chmod(bed.runtime, 0o770) == 0)
        #expect(try bed.edit("file", by: script).status == 0)
        #expect(chmod(bed.runtime, 0o700) == 0)
        try bed.expectNoPlaintext()
    }
}
