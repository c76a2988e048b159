import Foundation
import Testing

@testable import protectfs

@Suite("run")
struct RunTests {
    private let bed: EditBed
    private var sandbox: CommandSandbox { bed.sandbox }
    init() throws {
        bed = try EditBed()
        try bed.make("a", "first")
        try bed.make("b", "second", "none")
    }

    @Test("Each file is a descriptor, from 3 on, at its beginning")
    func descriptors() throws {
        let done = try sandbox.run("run", "a", "b", "--", "sh", "-c", "cat <&4; cat <&3; cat <&3; echo end")
        #expect(done.text == bed.text("second") + bed.text("first") + "end\n", "\(done.errors)")
        #expect(done.status == 0 && done.errors.isEmpty)
        try bed.expectNoPlaintext()
    }

    @Test("{}, {1}, {2} in the arguments are their paths; other braces stay")
    func names() throws {
        let done = try sandbox.run(
            "run", "a", "b", "--", "printf", "%s\\n", "{}", "x{1}y{2}", "{3}{0}{01}{+1}{x}{", "}{}")
        #expect(done.text == "/dev/fd/3\nx/dev/fd/3y/dev/fd/4\n{3}{0}{01}{+1}{x}{\n}/dev/fd/3\n")
        #expect(
            try sandbox.run("run", "b", "a", "--", "cat", "{2}", "{}").text == bed.text("first") + bed.text("second"))
        #expect(Run.filledIn([0xFF, 0x7B, 0x7D], count: 1) == [0xFF] + Array("/dev/fd/3".utf8))
    }

    @Test("Nobody can write to it, in any way")
    func readOnly() throws {
        let script = """
            import fcntl, mmap, os, sys
            def refused(action):
                try: action()
                except (OSError, ValueError): return
                sys.exit("not refused: line %d" % sys._getframe(1).f_lineno)
            refused(lambda: os.write(3, b"x"))
            refused(lambda: os.ftruncate(3, 0))
            def reopened():
                new = os.open("/proc/self/fd/3", os.O_RDWR)
                refused(lambda: os.pwrite(new, b"x", 0))
                refused(lambda: os.ftruncate(new, 0))
                refused(lambda: os.ftruncate(new, 1 << 20))
                refused(lambda: mmap.mmap(new, 0, mmap.MAP_SHARED, mmap.PROT_WRITE | mmap.PROT_READ))
                raise OSError
            refused(reopened)
            assert fcntl.fcntl(3, 1034) & 0xF == 0xF  # F_GET_SEALS
            assert os.fstat(3).st_mode & 0o777 == 0o400
            sys.stdout.write(mmap.mmap(3, 0, mmap.MAP_PRIVATE, mmap.PROT_READ)[:].decode())
            """
        let done = try sandbox.run("run", "a", "--", "python3", "-c", script)
        #expect(done.text == bed.text("first"), "\(done.errors)")
    }

    @Test("Descriptors that were open before: those under the files' numbers go, others are passed on")
    func inherited() throws {
        try sandbox.put("outer", at: "outer")
        let script = """
            exec "$PROTECTFS" run a b -- sh -c 'cat <&3; cat <&4; cat <&5; cd /proc/self/fd; ls -l | grep -c memfd' \
                3<outer 4<outer 5<outer
            """
        let done = try sandbox.shell(script)
        #expect(done.text == bed.text("first") + bed.text("second") + "outer2\n", "\(done.errors)")
    }

    @Test(
        "Files that protectfs itself has open meanwhile, and closes late, take nothing from the command",
        .enabled(if: SystemCallTrace.isPossible, SystemCallTrace.whyNot))
    func ownDescriptors() throws {
        // The thread that waits for locks holds what it reads for a second, and the exec comes after that.
        let done = try sandbox.shell(
            """
            exec strace -f -qq -o /dev/null -e trace=pread64,execve -e inject=pread64:delay_enter=1000000:when=1 \
                -e inject=execve:delay_enter=2000000:when=1 "$PROTECTFS" run "$@" -- \
                python3 -c 'import os; [os.write(1, os.read(number, 1000)) for number in range(3, 23)]'
            """, ["sh"] + Array(repeating: "a", count: 20))
        #expect(done.text == String(repeating: bed.text("first"), count: 20), "\(done.errors)")
        #expect(done.status == 0 && done.errors == "")
    }

    @Test("The command's exit status is ours; 127 and 126 where there is none")
    func statuses() throws {
        #expect(try sandbox.run("run", "a", "--", "sh", "-c", "exit 42").status == 42)
        #expect(try sandbox.shell("\"$PROTECTFS\" run a -- sh -c 'kill -9 $$'; echo $?").text.contains("137"))
        let missing = try sandbox.run("run", "a", "--", "no-such-command")
        #expect(missing.status == 127 && missing.errors.contains("'no-such-command'"))
        #expect(try sandbox.run("run", "a", "--", sandbox.path("a")).status == 126)
        // SIGPIPE, which we ignore, does what it did before; no core dump of it is made.
        #expect(try sandbox.shell("\"$PROTECTFS\" run a -- yes | head -1; ulimit -c").status == 0)
        let limits = try sandbox.shell(
            "ulimit -c unlimited; \"$PROTECTFS\" run a -- sh -c 'ulimit -c; kill -PIPE $$'; echo $?")
        #expect(limits.text == "0\n141\n")
        // 0 would not keep the kernel from piping a dump to a program; 1 does.
        let core = try sandbox.shell("ulimit -c unlimited; \"$PROTECTFS\" run a -- grep core /proc/self/limits")
        #expect(core.text.split(whereSeparator: \.isWhitespace).suffix(3) == ["1", "1", "bytes"], "\(core.text)")
    }

    @Test("The command is not run unless every file can be opened")
    func allOrNothing() throws {
        try sandbox.put("plain", at: "plain")
        let touch = ["--", "touch", "started"]
        #expect(try sandbox.run(["run", "a", "missing"] + touch).status == 66)
        #expect(try sandbox.run(["run", "plain", "a"] + touch).status == 65)
        #expect(try sandbox.run(["run", "a"]).status == 64)
        #expect(try sandbox.run(["run", "a", "--"]).status == 64)
        #expect(try sandbox.run(["run"] + touch).status == 64)
        try sandbox.run("lock")
        #expect(try sandbox.run(["run", "b", "a"] + touch).status == 75)
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("started")))
        #expect(try sandbox.run("run", "b", "--", "cat", "{}").text == bed.text("second"))
    }

    @Test("A lock takes nothing from a command that runs")
    func lock() throws {
        let done = try sandbox.run(
            "run", "a", "--", "sh", "-c", "\"$PROTECTFS\" lock && ! \"$PROTECTFS\" cat a 2>/dev/null && cat {}")
        #expect(done.text == bed.text("first"), "\(done.errors)")
        try bed.expectNoPlaintext()
    }

    @Test(
        "lock --require-clean fails while the command, or a child that outlives it, has plaintext, and names it",
        arguments: ["echo >ready; read -r _ <end", "(echo >ready; read -r _ <end) & exit"])
    func requireClean(command: String) throws {
        let done = try sandbox.shell(
            """
            mkfifo ready end
            "$PROTECTFS" run a b -- sh -c "$0" &
            read -r _ <ready
            "$PROTECTFS" lock; echo $?
            "$PROTECTFS" lock --require-clean; echo $?
            "$PROTECTFS" status --clients | tail -n 1 | grep -c "'sh', with plaintext of '.*/a'$"
            echo >end
            wait
            until "$PROTECTFS" lock --require-clean 2>/dev/null; do sleep 0.05; done; echo $?
            """, [command])
        #expect(done.text == "0\n75\n1\n0\n", "\(done.errors)")
        let lines = done.errors.split(separator: "\n")
        #expect(lines.count == 4, "\(done.errors)")
        for line in lines.prefix(2) {
            #expect(line.hasPrefix("protectfs: warning: 'sh' (process "))
            #expect(line.hasSuffix(") still holds plaintext of '\(sandbox.path("a"))'"), "class none is not named")
        }
        let error = "protectfs: error: the keys were evicted, but 1 program still holds plaintext"
        #expect(lines.dropFirst(2).first?.hasPrefix(error) == true)
    }

    @Test("Arguments arrive byte for byte, however many; options behind -- are the command's")
    func arguments() throws {
        let script = "\"$PROTECTFS\" run a -- printf '%s|' \"$(printf 'a\\377')\" '' --help -- --keybag '{}'"
        let done = try sandbox.shell(script)
        #expect(Array(done.output) == Array("a".utf8) + [0xFF] + Array("||--help|--|--keybag|/dev/fd/3|".utf8))
        let many = (0..<300).map { "\($0)" }
        #expect(try sandbox.run(["run", "a", "--", "echo"] + many).text == many.joined(separator: " ") + "\n")
        let files = Array(repeating: "b", count: 100)
        let last = try sandbox.run(["run"] + files + ["--", "cat", "{100}", "{}"])
        #expect(last.text == bed.text("second") + bed.text("second"), "\(last.errors)")
    }

    @Test("Killed by Ctrl-C, SIGTERM or SIGKILL, the command leaves nothing", arguments: ["INT", "TERM", "KILL"])
    func killed(signal: String) throws {
        let script = """
            mkfifo ready; "$PROTECTFS" run a -- sh -c 'cat {} >/dev/null; echo >ready; exec sleep 15' & pid=$!
            read -r _ <ready; kill -\(signal) $pid; wait $pid; echo $?
            """
        // A background process of a shell without job control ignores SIGINT: python3 starts it as a terminal would.
        let start =
            "python3 -c 'import os,signal,sys; signal.signal(2,signal.SIG_DFL); os.execvp(sys.argv[1],sys.argv[1:])' "
        let done = try sandbox.shell(script.replacing("\"$PROTECTFS\" run", with: start + "\"$PROTECTFS\" run"))
        let numbers = ["INT": "130\n", "TERM": "143\n", "KILL": "137\n"]
        #expect(done.text == numbers[signal], "\(done.errors)")
        try bed.expectNoPlaintext()
    }
}
