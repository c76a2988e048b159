import Foundation
import PrivateBus
import Testing

/// As a user of its own: the agent locks whatever is in the ring, the keybags of other tests too.
@Suite(
    "The agent that follows every keybag",
    .enabled(if: geteuid() == 0, "needs root: it takes another uid, because it locks every keybag of its own"))
struct AgentOfAnotherUserTests {
    private let bus: PrivateBus
    private let sandbox: CommandSandbox
    private let uid = UInt32.random(in: 600_000..<1_600_000)

    init() throws {
        bus = try PrivateBus()
        sandbox = try CommandSandbox(makesKeybag: false, variables: bus.environment)
        // Where the build directory is, the other user may not go.
        let copied = try sandbox.shell("cp \"$PROTECTFS\" protectfs && cp \"$PROTECTFS-agent\" protectfs-agent")
        guard copied.status == 0 else { throw CommandSandbox.Unexpected(copied.errors) }
        guard chown(sandbox.root, uid, uid) == 0 else { throw CommandSandbox.Unexpected("chown") }
        try bus.addSession("1", uid: uid)
    }

    @Test("Locks its own, another one, and one whose directory has gone")
    func all() throws {
        let pid = "\(sandbox.root)/agent.pid"
        let prepared = try sandbox.shell(
            """
            run() { setpriv --reuid \(uid) --regid \(uid) --clear-groups "$@"; }
            for name in keybag two three; do
                printf secret | run ./protectfs init --passcode-fd 0 --keybag "$PWD/$name" || exit 1
            done
            mv three gone
            run ./protectfs agent run --grace 1 2>agent.log >/dev/null </dev/null &
            echo $! >agent.pid
            i=0; until grep -q follows agent.log; do sleep 0.05; i=$((i + 1)); [ $i -lt 400 ] || exit 99; done
            run ./protectfs agent status --keybag two | tail -n 1
            """)
        #expect(prepared.status == 0, "\(prepared.errors)")
        #expect(prepared.text == "follows every unlocked keybag\n")
        try bus.lock("1")
        let locked = try sandbox.shell(
            """
            run() { setpriv --reuid \(uid) --regid \(uid) --clear-groups "$@"; }
            i=0; while run cat /proc/keys | grep -q 'protectfs:.*:1:'; do
                sleep 0.05; i=$((i + 1)); [ $i -lt 400 ] || break; done
            run cat /proc/keys | grep -c 'protectfs:.*:1:'; run cat /proc/keys | grep -c 'protectfs:.*:2:'
            kill "$(cat agent.pid)"; run sh -c 'keyctl clear @u'; cat agent.log >&2
            """)
        #expect(locked.text == "0\n3\n", "\(locked.errors)")
        _ = pid
    }
}
