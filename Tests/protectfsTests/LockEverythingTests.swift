import Foundation
import Testing

/// As a user of its own: these lock whatever is in the ring, the keybags of other tests too.
@Suite(
    "lock --all, and lock without a readable keybag",
    .enabled(if: geteuid() == 0, "needs root: it takes another uid, because it locks every keybag of its own"))
struct LockEverythingTests {
    private let sandbox: CommandSandbox
    private let uid = UInt32.random(in: 600_000..<1_600_000)

    init() throws {
        sandbox = try CommandSandbox(makesKeybag: false)
        // Where the build directory is, the other user may not go. By cp(1): a descriptor of ours that is open for writing
        // may be inherited by what another test starts just then, and the copy cannot be run that long (ETXTBSY).
        let copied = try sandbox.shell("cp \"$PROTECTFS\" protectfs")
        guard copied.status == 0 else { throw CommandSandbox.Unexpected(copied.errors) }
        guard chown(sandbox.root, uid, uid) == 0 else { throw CommandSandbox.Unexpected("chown") }
    }

    /// Runs a script as the other user, with two unlocked keybags, and empties its ring afterwards.
    private func script(_ text: String) throws -> Finished {
        let script = """
            run() { setpriv --reuid \(uid) --regid \(uid) --clear-groups "$@"; }
            pfs() { run ./protectfs "$@"; }
            state() { pfs status --keybag "$1" 2>/dev/null | head -n 1 | sed 's/.*: //; s/ since.*//'; }
            for name in one two; do
                printf secret | pfs init --passcode-fd 0 --keybag "$PWD/$name" || exit 1
            done
            \(text)
            run sh -c 'keyctl clear @u'
            """
        return try sandbox.shell(script)
    }

    @Test("lock --all locks every keybag, and each notes it")
    func all() throws {
        let done = try script("state one; state two; pfs lock --all --keybag one; echo $?; state one; state two")
        #expect(done.text == "unlocked\nunlocked\n0\nlocked\nlocked\n", "\(done.errors)")
    }

    @Test("lock --all changes the time of those keybags only that were unlocked")
    func lockedSince() throws {
        let done = try script(
            """
            since() { pfs status --keybag "$1" | head -n 1 | sed 's/.* since //'; }
            pfs lock --keybag one; locked=$(since one); unlocked=$(since two); sleep 2; pfs lock --all --keybag one
            [ "$(since one)" = "$locked" ] && echo stays; [ "$(since two)" = "$unlocked" ] || echo moves
            """)
        #expect(done.text == "stays\nmoves\n", "\(done.errors)")
    }

    @Test("A keybag that cannot be read is locked all the same, and the others with it")
    func unreadable() throws {
        let done = try script(
            "mv one gone; run mkdir -m 0 one; pfs lock --keybag one; echo $?; rmdir one; mv gone one; state one; state two"
        )
        #expect(done.text == "0\nlocked\nlocked\n", "\(done.errors)")
        #expect(done.errors.contains("the keys of every keybag were evicted (2)"))
        #expect(done.errors.contains("cannot be read, so keys in other user namespaces cannot be ruled out"))
    }

    @Test(
        "A keybag that does not open is not reported as locked while another namespace holds its keys",
        arguments: [
            "printf x >one/keybag.0; printf x >one/keybag.1", "chmod 777 one", "mv one moved; chmod 770 moved",
        ])
    func elsewhere(harm: String) throws {
        let done = try script(
            """
            printf '77 %s 0\\n' "$(tr -d - </proc/sys/kernel/random/boot_id)" >one/rings
            \(harm)
            if [ -d moved ]; then name=moved; else name=one; fi
            pfs lock --keybag $name; echo $?
            state two
            """)
        #expect(done.text == "75\nlocked\n", "\(done.errors)")
        #expect(done.errors.contains("was unlocked in user namespace 77 and not locked there"))
        #expect(done.errors.contains("if it has ended, locks succeed again after a restart of the machine"))
    }

    @Test(
        "A damaged and an unsafe keybag are locked too",
        arguments: ["printf x >one/keybag.0; printf x >one/keybag.1", "chmod 777 one"])
    func damaged(harm: String) throws {
        let done = try script("\(harm); pfs lock --keybag one; echo $?; pfs lock --keybag two; state two")
        #expect(done.text == "0\nlocked\n", "\(done.errors)")
    }

    @Test("Root's lock of another user's keybag fails, and evicts nothing of root's")
    func ofAnotherUser() throws {
        let own = try CommandSandbox()
        try own.unlock()
        let done = try script(#""$PROTECTFS" lock --keybag one; echo $?; state one"#)
        #expect(done.text == "77\nunlocked\n", "\(done.errors)")
        #expect(done.errors.contains("it belongs to uid \(uid)"))
        #expect(try own.run("status").text.contains("unlocked"))
    }

    @Test("An ordinary user protects, locks, appends and reads, though the process lets nobody look into it")
    func ordinaryUser() throws {
        let done = try script(
            """
            export XDG_STATE_HOME="$PWD/state"
            run sh -c 'mkdir tree; echo text >tree/file'
            pfs protect --recursive --yes tree --keybag one; echo $?
            echo more | pfs write --append tree/file --keybag one; echo $?
            pfs cat tree/file --keybag one
            pfs lock --keybag one; pfs cat tree/file --keybag one; echo $?
            """)
        #expect(done.text == "0\n0\ntext\nmore\n75\n", "\(done.errors)")
    }
}
