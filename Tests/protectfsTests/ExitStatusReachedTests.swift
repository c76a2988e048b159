import Foundation
import Testing

@testable import protectfs

private typealias OurStatus = protectfs.ExitStatus

/// Every exit status, from the built program.
@Suite("Exit status: every one is reached")
struct ExitStatusReachedTests {
    /// A way to an exit status: a script whose last command is the program. The keybag is unlocked; `secret` is complete,
    /// `plain` is plaintext.
    struct Way: Sendable {
        let status: Int32
        let name: String
        let script: String
        /// What standard error says, in part.
        let says: String
        /// Whether strace(1) has to play a kernel that refuses.
        var needsTrace = false
    }

    static let ways = [
        Way(status: 0, name: "done", script: "exec \"$PROTECTFS\" cat secret", says: ""),
        Way(status: 64, name: "usage", script: "exec \"$PROTECTFS\" cat", says: "missing expected argument"),
        Way(status: 65, name: "not protected", script: "exec \"$PROTECTFS\" cat plain", says: "not a protected file"),
        Way(status: 66, name: "no such file", script: "exec \"$PROTECTFS\" cat missing", says: "'missing'"),
        Way(
            status: 69, name: "no keyring, as in a container whose profile forbids the calls",
            script: """
                for call in keyctl add_key request_key; do set -- "$@" -e inject=$call:error=ENOSYS; done
                exec strace -o /dev/null "$@" "$PROTECTFS" status
                """, says: "the kernel keyring cannot be used", needsTrace: true),
        Way(
            status: 70, name: "libcrypto fails where it cannot fail: there are no random numbers",
            script: "exec strace -f -o /dev/null -e inject=getrandom:error=EPERM \"$PROTECTFS\" "
                + "write --class first-unlock new <plain",
            says: "please report this", needsTrace: true),
        Way(
            status: 73, name: "exists already",
            script: "echo passcode | \"$PROTECTFS\" init --passcode-fd 0", says: "already"),
        Way(status: 74, name: "a full disk", script: "exec \"$PROTECTFS\" ls >/dev/full", says: "standard output"),
        Way(
            status: 75, name: "locked", script: "\"$PROTECTFS\" lock && exec \"$PROTECTFS\" cat secret",
            says: "locked since"),
        Way(
            status: 77, name: "wrong passcode",
            script: "echo wrong | \"$PROTECTFS\" unlock --passcode-fd 0", says: "wrong passcode"),
        Way(
            status: 78, name: "bad configuration",
            script: """
                mkdir -p "$XDG_CONFIG_HOME/protectfs" && echo nonsense >"$XDG_CONFIG_HOME/protectfs/config"
                exec "$PROTECTFS" write new <plain
                """, says: "line 1"),
        Way(
            status: 126, name: "run: a command that cannot be run", script: "exec \"$PROTECTFS\" run secret -- ./plain",
            says: "cannot run './plain'"),
        Way(
            status: 127, name: "run: no such command", script: "exec \"$PROTECTFS\" run secret -- no-such-command",
            says: "cannot run 'no-such-command'"),
        Way(
            status: 130, name: "interrupted, once it listens to signals (bit 14 is SIGTERM; killed by it would be 143)",
            script: """
                mkfifo pipe; "$PROTECTFS" write new <pipe & exec 5>pipe
                caught() { sed -n 's/^SigCgt:[^0-9a-f]*/0x/p' "/proc/$1/status"; }
                until [ $(($(caught $!) & 0x4000)) != 0 ]; do sleep 0.05; done
                kill -TERM $!; wait $!
                """, says: "interrupted"),
    ]

    @Test("By the simplest way there is", arguments: ways)
    func reached(way: Way) throws {
        if way.needsTrace, !SystemCallTrace.isPossible {
            print("skipped: exit status \(way.status): \(SystemCallTrace.whyNot)")
            return
        }
        let done = try sandbox().shell(way.script)
        #expect(done.status == way.status, "\(way.name): \(done.errors)")
        #expect(way.says == "" ? done.errors == "" : done.errors.contains(way.says), "\(way.name): \(done.errors)")
    }

    @Test("71, no more open files: with any limit the program works or says so")
    func limits() throws {
        let sandbox = try sandbox()
        var found: Set<Int32> = []
        for limit in 3...16 {
            let done = try sandbox.shell(
                "exec <plain; ulimit -n \(limit); exec \"$PROTECTFS\" write --class first-unlock new")
            // The dynamic linker itself needs one, and says 127.
            if done.status != 127 { found.insert(done.status) }
        }
        #expect(found == [0, 71])
    }

    @Test("There is none that these tests leave out; 76 needs a server: DownloadExitStatusTests")
    func complete() {
        #expect(Set(Self.ways.map(\.status)).union([71, 76]) == Set(OurStatus.allCases.map(\.rawValue)))
    }

    private func sandbox() throws -> CommandSandbox {
        let sandbox = try CommandSandbox()
        try sandbox.unlock()
        try sandbox.protectedFile("secret")
        try sandbox.put("text\n", at: "plain")
        return sandbox
    }
}
