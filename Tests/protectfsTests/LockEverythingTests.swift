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

    @Test("lock --all calls a keybag that was moved away not clean: nobody can ask what its programs have")
    func moved() throws {
        let done = try script(
            """
            mv two elsewhere
            pfs lock --all --require-clean --keybag one 2>errors; echo $?; grep -c 'cannot be asked what they have' errors
            pfs lock --all --json --keybag one 2>/dev/null | grep -c '"clean": false'
            state elsewhere
            """)
        #expect(done.text == "75\n1\n1\nlocked\n", "\(done.errors)")
    }

    @Test(
        "lock --all evicts the keys of each keybag once",
        .enabled(if: SystemCallTrace.isPossible, SystemCallTrace.whyNot))
    func once() throws {
        let done = try script(
            """
            run strace -qq -f -o calls -e trace=keyctl ./protectfs lock --all --keybag one; echo $?
            grep -c 'KEYCTL_LINK, KEY_SPEC_USER_KEYRING, KEY_SPEC_THREAD_KEYRING' calls
            grep -c KEYCTL_INVALIDATE calls; state one; state two
            """)
        #expect(done.text == "0\n2\n2\nlocked\nlocked\n", "\(done.errors)")
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

    @Test("The keys of a keybag that cannot be read are evicted, and the others with it; that is not proven")
    func unreadable() throws {
        let done = try script(
            "mv one gone; run mkdir -m 0 one; pfs lock --keybag one; echo $?; rmdir one; mv gone one; state one; state two"
        )
        #expect(done.text == "75\nlocked\nlocked\n", "\(done.errors)")
        #expect(
            done.errors.contains(
                "an unlock that began before may load them again: 'one/transition' cannot be opened, locked and written: permission denied"
            ), "\(done.errors)")
        #expect(done.errors.contains("hint: make it accessible: chmod 700 'one'; then: protectfs lock --keybag 'one'"))
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

    @Test("lock --all beside a process in the turn of one keybag: that one is not proven, the other is")
    func allBesideHolder() throws {
        let done = try script(
            """
            mkfifo end
            run flock one/transition sh -c 'echo; read line' >ready <end & exec 9>end
            until [ -s ready ]; do sleep 0.01; done
            pfs lock --all --keybag two; echo $?; state one; state two
            pfs lock --all --keybag two --json 2>/dev/null | grep -c '"proven": false'
            pfs lock --all --keybag two --json 2>/dev/null | grep -c '"proven": true'
            echo >&9; wait $!
            pfs lock --all --keybag two; echo $?
            """)
        #expect(done.text == "75\nlocked\nlocked\n1\n1\n0\n", "\(done.errors)")
        let error = "the keys of keybag '\(sandbox.root)/one' were evicted, but an unlock may load them again: process "
        #expect(done.errors.split(separator: error, omittingEmptySubsequences: false).count == 2, "\(done.errors)")
    }

    /// FORMAT.md §2.5: an unlock notes its directory in the keyring, before it begins.
    @Test(
        "A lock sees an unlock of a keybag that the registry does not know, and of another copy of its keybag",
        .enabled(if: SystemCallTrace.isPossible, SystemCallTrace.whyNot),
        arguments: [
            ("rm -r state/protectfs/keybags", "--all --keybag two"), ("cp -a one copy", "--keybag copy"),
            ("cp -a one copy; pfs unlock --keybag copy --passcode-fd 0 <passcode; pfs lock --keybag copy", "--all"),
        ])
    func unknownUnlock(before: String, options: String) throws {
        // It is stopped when it is about to load class keys A and B.
        let done = try script(
            """
            printf secret >passcode
            pfs lock --keybag one; pfs lock --keybag two; \(before)
            run strace -f -qq -e trace=add_key -e inject=add_key:signal=SIGSTOP:when=2 -o stopped \\
                sh -c 'echo $$ >pid; exec ./protectfs unlock --keybag "$PWD/one" --passcode-fd 0' <passcode & unlocking=$!
            until grep -q 'stopped by SIGSTOP' stopped 2>/dev/null; do sleep 0.01; done
            pfs lock \(options); echo $?
            kill -CONT $(cat pid); wait $unlocking; echo $?
            pfs lock \(options); echo $?
            state one
            """)
        #expect(done.text == "75\n75\n0\nlocked\n", "\(done.errors)")
        let error = "the keys of keybag '\(sandbox.root)/one' were evicted, but an unlock may load them again: process "
        #expect(done.errors.contains(error), "\(done.errors)")
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

    /// As sudo(8) leaves it: somebody with HOME or PROTECTFS_KEYBAG of somebody else. Not as root, in whose ring are other tests' keys.
    @Test(
        "lock --all of another user's keybag, or with another user's registry, fails and names both",
        arguments: [
            ("XDG_STATE_HOME=$PWD/mine PROTECTFS_KEYBAG=$PWD/none", "--keybag $PWD/one", "one"),
            ("XDG_STATE_HOME=$PWD/mine PROTECTFS_KEYBAG=$PWD/one", "", "one"),
            ("PROTECTFS_KEYBAG=$PWD/none", "", "state/protectfs/keybags"),
        ])
    func allOfAnotherUser(environment: String, options: String, directory: String) throws {
        let other = UInt32.random(in: 1_600_000..<2_600_000)
        let done = try script(
            """
            mkdir mine; chown \(other) mine; chmod 755 . state state/protectfs state/protectfs/keybags
            env \(environment) setpriv --reuid \(other) --regid \(other) --clear-groups ./protectfs lock --all \(options)
            echo $?; state one; state two
            """)
        #expect(done.text == "77\nunlocked\nunlocked\n", "\(done.errors)")
        // What is in a directory that this user may not look into is named first.
        let error = "'\(sandbox.root)/\(directory)' is not used: it belongs to uid \(uid), not to you (uid \(other))"
        #expect(done.errors.contains(error), "\(done.errors)")
        #expect(done.errors.contains("sudo -u '#\(uid)'"), "\(done.errors)")
    }

    @Test(
        "A keybag once used that belongs to another user now: an error if its keys were there, then a warning with the way out"
    )
    func ofAnotherUserNow() throws {
        let done = try script(
            """
            chown -R 599999 one; chmod 711 one
            pfs lock --all --keybag two; echo $?
            pfs lock --all --keybag two; echo $?
            chown -R \(uid) one; chmod 700 one; state one; state two
            """)
        #expect(done.text == "77\n0\nlocked\nlocked\n", "\(done.errors)")
        #expect(
            done.errors.contains("keybag file '\(sandbox.root)/one' is not used: it belongs to uid 599999"),
            "\(done.errors)")
        let link = "rm '\(sandbox.root)/state/protectfs/keybags/"
        #expect(done.errors.contains("was used here and belongs to uid 599999 now; it is not locked"), "\(done.errors)")
        #expect(done.errors.contains(link), "\(done.errors)")
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

    @Test("Keys in another user namespace are not called locked, also where the keybag cannot be found")
    func elsewhereUnfound() throws {
        let done = try script(
            #"""
            run unshare --user --map-root-user --mount sh -c \
                'mount -t tmpfs none one && ./protectfs lock --all --json --keybag "$PWD/two"' >report; echo $?
            grep -c '"proven": false' report; state one
            """#)
        #expect(done.text == "75\n2\nunlocked\n", "\(done.text) \(done.errors)")
    }

    @Test("A keyring that cannot be searched is an unknown state")
    func unsearchable() throws {
        let done = try script(
            #"""
            ring=$(run keyctl id @u)
            for mask in 0x37370000 0x36360000; do
                run keyctl setperm "$ring" $mask
                pfs status --keybag one >/dev/null 2>&1; echo $?
                pfs lock --keybag one >/dev/null 2>&1; echo $?
                run keyctl setperm "$ring" 0x3f3f0000
                state one
            done
            """#)
        #expect(done.text == "75\n75\nunlocked\n75\n75\nunlocked\n", "\(done.text) \(done.errors)")
    }
}
