import Foundation
import SystemPackage
import Testing

/// What other processes can see of the command's: memory, core dumps, arguments, environment.
@Suite("End to end: data that a process exposes", .enabled(if: EndToEndUser.canMakeUsers, EndToEndUser.whyNot))
struct EndToEndHardeningTests {
    /// Not root, who may look at everything.
    private let user: EndToEndUser
    private let file: FilePath
    private let bytes = randomBytes(5000)

    init() throws {
        user = try EndToEndUser.made()
        file = user.home.appending("file")
        try user.unlock()
        try user.write(file, "complete", bytes)
    }

    private func shell(_ script: String) throws -> EndToEndRun {
        let protectfs = "PROTECTFS=\(user.programs.appending("protectfs")); FILE=\(file); cd; "
        return try user.run(["sh", "-c", protectfs + script])
    }

    @Test("edit and run work without privileges, and other users see nothing")
    func unprivileged() throws {
        let run = try shell("\"$PROTECTFS\" run \"$FILE\" -- cat {}")
        #expect(run.status == 0 && run.output == bytes, "\(run)")
        let writing = try shell("\"$PROTECTFS\" run \"$FILE\" -- sh -c 'exec 5<>/dev/fd/3' 2>/dev/null")
        #expect(writing.status != 0)
        let edit = try shell(
            """
            "$PROTECTFS" edit --editor 'stat -c %u:%a "$(dirname "$1")/.." "$1"; chmod u+w "$1"; echo new >"$1"; true' "$FILE"
            """)
        #expect(edit.status == 0 && edit.text == "\(user.uid):700\n\(user.uid):600\n", "\(edit)")
        #expect(try user.run(["protectfs", "cat", file.string]).text == "new\n")
    }

    @Test("A failed write-back is reported with its reason")
    func notWritable() throws {
        let edit = try shell(
            "mkdir place; mv file place; \"$PROTECTFS\" edit --editor 'chmod a-w place; echo >' place/file")
        #expect(edit.status == 77, "\(edit)")
        #expect(edit.errors.contains("permission denied") && edit.errors.contains("what the editor saved is discarded"))
        #expect(try shell("\"$PROTECTFS\" cat place/file").output == bytes)
        let early = try shell("\"$PROTECTFS\" edit --editor 'touch started; :' place/file; ls")
        #expect(early.errors.contains("permission denied") && !early.text.contains("started"), "\(early)")
    }

    @Test("No core dump, and nobody of the same user looks into its memory or environment")
    func refusesDumps() throws {
        let script = """
            ulimit -c unlimited; mkdir cores; cd cores; mkfifo pipe
            "$PROTECTFS" write new <pipe & pid=$!; exec 5>pipe
            until [ "$(readlink /proc/$pid/exe 2>/dev/null)" = "" ]; do sleep 0.02; done
            grep 'Max core' /proc/$pid/limits
            for name in mem environ maps; do
                cat /proc/$pid/$name >/dev/null 2>&1 && echo "$name can be read"
            done
            kill -ABRT $pid; wait $pid; echo $?; exec 5>&-; rm pipe; ls
            """
        let done = try shell(script)
        let lines = done.text.split(separator: "\n").map { $0.split(separator: " ").joined(separator: " ") }
        #expect(lines == ["Max core file size 1 1 bytes", "134"], "\(done)\(done.text)")

        // Others can be looked into, and leave a core file where the system makes one.
        let control = try shell(
            "sleep 10 & pid=$!; cat /proc/$pid/maps >/dev/null && cat /proc/$pid/environ >/dev/null; echo $?; kill $pid"
        )
        #expect(control.text == "0\n", "\(control)")
    }

    @Test("In a whole session no process has the passcode in its arguments or environment, nor says it")
    func session() throws {
        // Text that stands nowhere else, unlike the passcode of the other tests.
        let secret = Secret(Array("\(UInt64.random(in: UInt64.max / 2...UInt64.max))".utf8))
        let old = user.home.appending("old")
        let new = user.home.appending("new")
        try old.store(Array(EndToEndUser.passcode.utf8))
        try new.store(secret.bytes)
        for path in [old, new] { try user.give(path) }
        // One process looks at all the others, all the time.
        let done = try shell(
            """
            (while [ ! -e done ]; do cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ; sleep 0.01; done >seen 2>/dev/null) &
            {
                "$PROTECTFS" passcode --passcode-fd 3 --new-passcode-fd 4 3<old 4<new
                "$PROTECTFS" lock; "$PROTECTFS" unlock --passcode-fd 3 3<new
                "$PROTECTFS" edit --editor 'cat /proc/self/environ; sleep 0.5; :' "$FILE"
                "$PROTECTFS" run "$FILE" -- cat /proc/self/cmdline /proc/self/environ
                "$PROTECTFS" cat "$FILE" | wc -c; "$PROTECTFS" status; "$PROTECTFS" unlock --passcode-fd 3 3</dev/null
            } 2>&1; touch done; wait
            """)
        let seen = try user.home.appending("seen").storedBytes()
        let (isSaid, isSeen) = (secret.isIn(done.output), secret.isIn(seen))
        #expect(!isSaid && !isSeen)
        #expect(done.text.contains("5000\n") && done.text.contains("nothing arrived"), "\(done)\(done.text)")
        let isWatching = Secret(Array("cat /proc/self/environ; sleep 0.5".utf8)).isIn(seen)
        #expect(isWatching, "what a process is started with is seen")
    }
}
