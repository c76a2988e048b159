import Foundation
import Testing

/// What `lock` says if an unlock may load keys again.
@Suite("A lock that is not proven, in words")
struct LockProofVerbTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    private var transition: String { sandbox.keybagDirectory + "/transition" }

    /// `script` while somebody, whose process id is `$holder`, has the flock of `transition`.
    private func beside(_ script: String) throws -> Finished {
        try sandbox.shell(
            """
            mkfifo end
            flock '\(transition)' sh -c 'echo >ready; read line <end' & holder=$!
            until [ -e ready ]; do sleep 0.01; done
            \(script)
            echo >end; wait $holder
            """)
    }

    @Test("The process is named, with a hint; --json says it for scripts")
    func words() throws {
        let done = try beside("echo $holder; \"$PROTECTFS\" lock; echo $?; \"$PROTECTFS\" lock --json; echo $?")
        let lines = done.text.split(separator: "\n").map(String.init)
        let holder = try #require(lines.first)
        #expect(lines[1] == "75" && lines.last == "75", "\(done.errors)")
        let error =
            "protectfs: error: the keys of keybag '\(sandbox.keybagDirectory)' were evicted, but an unlock may load them again: "
            + "process \(holder) did not give back its lock on '\(transition)' within a second\n"
            + "protectfs: hint: if it is stopped, resume it (kill -CONT \(holder)) or end it (kill -KILL \(holder)); "
            + "then: protectfs lock\n"
        #expect(done.errors == error + error)
        let json = lines[2..<(lines.count - 1)].joined(separator: "\n")
        let report = try #require(try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any])
        let keybag = try #require((report["keybags"] as? [[String: Any]])?.first)
        #expect(keybag["proven"] as? Bool == false && keybag["clean"] as? Bool == false)
        #expect(keybag["reason"] as? String == "held")
        let after = try #require(try sandbox.run("lock", "--json").json() as? [String: Any])
        let proven = try #require((after["keybags"] as? [[String: Any]])?.first)
        #expect(proven["proven"] as? Bool == true && proven["reason"] is NSNull && proven["clean"] as? Bool == true)
        #expect(try sandbox.run("status").text.contains(": locked"))
    }

    @Test(
        "lock --require-clean and lock --grace are not proven either; --grace locks at once",
        arguments: [["--require-clean"], ["--grace", "600"]])
    func options(options: [String]) throws {
        let done = try beside(
            "\"$PROTECTFS\" lock \(options.joined(separator: " ")); echo $?; \"$PROTECTFS\" status | head -n 1")
        #expect(done.text.hasPrefix("75\n") && done.text.contains(": locked"), "\(done.text) \(done.errors)")
        #expect(done.errors.contains("did not give back its lock"), "\(done.errors)")
        let isSaid = done.errors.contains("is locked at once: device or resource busy")
        #expect(isSaid == (options.first == "--grace"), "\(done.errors)")
    }

    @Test("erase destroys nothing then")
    func erase() throws {
        let before = try sandbox.keybagFiles()
        let done = try beside("\"$PROTECTFS\" erase --yes; echo $?")
        #expect(done.text == "75\n", "\(done.errors)")
        #expect(try sandbox.keybagFiles().keys.sorted() == before.keys.sorted())
        #expect(try sandbox.run("erase", "--yes").status == 0)
    }

    @Test("A record that cannot be written, as on a full disk: status 75, and locked")
    func unwritable() throws {
        // Through a pipe: what the command says must have no size limit.
        let lock =
            "(trap '' XFSZ; ulimit -f 0; \"$PROTECTFS\" lock; echo $?) 2>&1 | cat; \"$PROTECTFS\" status | head -n 1"
        let done = try sandbox.shell(lock)
        #expect(
            done.text.contains(
                "an unlock that began before may load them again: '\(transition)' cannot be opened, locked and written: file too large"
            ))
        #expect(done.text.contains("protectfs: hint: when that is fixed: protectfs lock\n75\n"), "\(done.text)")
        #expect(done.text.contains(": locked"))
        #expect(try sandbox.run("lock").status == 0)
    }

    @Test(
        "Where there is no flock(2): status 75, and locked",
        .enabled(if: SystemCallTrace.isPossible, SystemCallTrace.whyNot))
    func noLocks() throws {
        let trace = "strace -f -qq -o /dev/null -P '\(transition)' -e trace=flock -e inject=flock:error=ENOLCK"
        let done = try sandbox.shell("\(trace) \"$PROTECTFS\" lock; echo $?; \"$PROTECTFS\" status | head -n 1")
        #expect(done.text.hasPrefix("75\n") && done.text.contains(": locked"), "\(done.errors)")
        #expect(done.errors.contains("cannot be opened, locked and written: no locks available"), "\(done.errors)")
    }

    @Test(
        "The keys go before anything that could wait", .enabled(if: SystemCallTrace.isPossible, SystemCallTrace.whyNot))
    func order() throws {
        let done = try sandbox.shell("strace -f -qq -e trace=keyctl,openat -o trace \"$PROTECTFS\" lock; echo $?")
        #expect(done.text == "0\n", "\(done.errors)")
        let lines = try String(contentsOfFile: sandbox.path("trace"), encoding: .utf8).split(separator: "\n")
        let gone = try #require(lines.firstIndex { $0.contains("KEYCTL_INVALIDATE") })
        let waits = try #require(lines.firstIndex { $0.contains("/transition\"") && $0.contains("O_RDWR|O_CREAT") })
        #expect(gone < waits)
    }

    @Test(
        "A stopped unlock: status 75, the process, and a hint; afterwards status 0",
        .enabled(if: SystemCallTrace.isPossible, SystemCallTrace.whyNot))
    func stoppedUnlock() throws {
        try sandbox.run("lock")
        // It is stopped when it is about to load class keys A and B: in its turn. Each thread counts its own calls, and the one that notes the
        // unlock makes one.
        let done = try sandbox.shell(
            #"""
            printf '%s' "$0" >passcode; exec 3<passcode
            strace -f -qq -e trace=add_key -e inject=add_key:signal=SIGSTOP:when=2 -o trace \
                sh -c 'echo $$ >pid; exec "$PROTECTFS" unlock --passcode-fd 3' & unlocking=$!
            until grep -q 'stopped by SIGSTOP' trace 2>/dev/null; do sleep 0.01; done
            cat pid
            "$PROTECTFS" lock; echo $?
            kill -CONT $(cat pid); wait $unlocking; echo $?
            "$PROTECTFS" lock; echo $?
            "$PROTECTFS" status | head -n 1
            """#, [CommandSandbox.passcode])
        let lines = done.text.split(separator: "\n").map(String.init)
        try #require(lines.count == 5, "\(done.text) \(done.errors)")
        #expect(Array(lines[1...3]) == ["75", "75", "0"], "\(done.errors)")
        #expect(done.errors.contains("process \(lines[0]) did not give back its lock on"), "\(done.errors)")
        #expect(done.errors.contains("was locked while the passcode was checked"), "\(done.errors)")
        #expect(lines[4].contains(": locked"))
    }

    /// In a mount namespace of its own, where the keybag is on a file system in memory.
    private func mounted(_ script: String) throws -> Finished {
        try sandbox.shell(
            """
            exec unshare --mount sh -c '
                mkdir -p disk && mount -t tmpfs none disk && cp -a keybag disk/ || exit 99
                \(script)'
            """)
    }

    @Test(
        "On a file system that is read-only for everybody a lock is proven, in a view that is read-only it is not",
        .enabled(if: geteuid() == 0, "needs root: it mounts"))
    func readOnly() throws {
        let lock = #""$PROTECTFS" lock --keybag disk/keybag; echo $?"#
        let everywhere = try mounted("mount -o remount,ro disk; \(lock)")
        if everywhere.status == 99 { return print("LockProofVerbTests.readOnly skipped: nothing can be mounted here") }
        #expect(everywhere.text == "0\n", "\(everywhere.errors)")
        try sandbox.unlock()
        let view = try mounted("mount --bind disk disk; mount -o remount,bind,ro disk; \(lock)")
        #expect(view.text == "75\n", "\(view.errors)")
        #expect(view.errors.contains("cannot be opened, locked and written: read-only file system"), "\(view.errors)")
        #expect(
            view.errors.contains("hint: lock where the file system is writable: protectfs lock --keybag 'disk/keybag'"))
        #expect(try sandbox.run("status").text.contains(": locked"), "the keys have the same names")
    }
}
