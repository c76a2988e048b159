import Foundation
import Testing

/// Each user namespace has a keyring of its own for the same user: a lock in one does not reach the keys in another.
@Suite(
    "User namespaces",
    .enabled(if: UserNamespaces.canBeMade, "unshare(1) cannot make user namespaces here"))
struct NamespaceTests {
    private let sandbox: CommandSandbox

    init() throws { sandbox = try CommandSandbox() }

    /// `"$@"` in a namespace where the user is who it is outside.
    private static let inside = #"inside() { unshare --user --map-current-user "$@"; }"# + "\n"

    private var state: String { get throws { try sandbox.run("status").text } }

    @Test(
        "A lock in another namespace fails while the keys stay",
        arguments: [[], ["--all"], ["--require-clean"], ["--grace", "1"]])
    func lockInside(options: [String]) throws {
        try sandbox.unlock()
        let done = try sandbox.shell(Self.inside + #"inside "$PROTECTFS" lock "$@""#, ["sh"] + options)
        #expect(done.status == 75, "\(done.errors)")
        #expect(done.errors.contains("was unlocked in user namespace "))
        #expect(done.errors.contains("hint: lock outside this namespace: protectfs lock"))
        #expect(try state.contains("unlocked"))
        let waits = Self.inside + #"inside "$PROTECTFS" wait --until locked"#
        #expect(try sandbox.shell(waits).status == 75, "a script would take it for a lock")
        #expect(try sandbox.run("lock").status == 0)
        #expect(try sandbox.shell(Self.inside + #"inside "$PROTECTFS" lock"#).status == 0, "nothing is left to lock")
        #expect(try sandbox.shell(waits).status == 0)
    }

    @Test("A lock that cannot reach the keys makes nobody forget their end, and tells no listener that there is none")
    func endStays() throws {
        let done = try sandbox.shell(
            Self.inside + #"""
                printf '%s' "$1" >passcode; "$PROTECTFS" unlock --passcode-fd 0 <passcode
                "$PROTECTFS" watch >heard & watch=$!
                "$PROTECTFS" lock --grace 3590 2>/dev/null & lock=$!
                timeout 60 sh -c 'until grep -q "^locks" heard; do sleep 0.01; done'; kill $lock; wait $lock 2>/dev/null
                inside "$PROTECTFS" lock 2>/dev/null; echo $?
                "$PROTECTFS" status | grep -c 'locks in 59 min'
                sleep 0.5; "$PROTECTFS" lock; echo $?
                until grep -q '^locked' heard; do sleep 0.01; done
                kill $watch; wait $watch 2>/dev/null; sed 's/ in .*//' heard
                """#, ["sh", CommandSandbox.passcode])
        #expect(done.text == "75\n1\n0\nunlocked\nlocks\nlocked\n", "\(done.text) \(done.errors)")
    }

    @Test("A copy of the keybag, or one without its record of namespaces, does not know of the keys; the kernel does")
    func unrecorded() throws {
        let done = try sandbox.shell(
            Self.inside + #"""
                cp -a keybag copy; printf '%s' "$1" >passcode; "$PROTECTFS" unlock --passcode-fd 0 <passcode
                for option in --require-clean --grace=1 --json; do
                    inside "$PROTECTFS" lock --keybag copy $option 2>/dev/null; echo $?
                done
                inside "$PROTECTFS" status --keybag copy | grep -c 'still unlocked in another user namespace'
                inside "$PROTECTFS" erase --yes --keybag copy 2>/dev/null; echo $?; [ -s copy/keybag.0 ]; echo $?
                rm keybag/rings; inside "$PROTECTFS" lock 2>/dev/null; echo $?
                "$PROTECTFS" lock; echo $?; inside "$PROTECTFS" lock --keybag copy; echo $?
                inside "$PROTECTFS" erase --yes --keybag copy 2>/dev/null; echo $?
                """#, ["sh", CommandSandbox.passcode])
        #expect(done.text == "75\n75\n75\n1\n75\n0\n75\n0\n0\n0\n", "\(done.text) \(done.errors)")
    }

    @Test(
        "A key of the same name that another user shows to everybody keeps no lock from succeeding",
        .enabled(if: geteuid() == 0, "only root can become another uid"))
    func keyOfAnotherUser() throws {
        let done = try sandbox.shell(
            #"""
            UUID=$("$PROTECTFS" explain --stored --json keybag | tr -d '\n' | sed 's/.*"uuid" *: *"\([^"]*\)".*/\1/')
            printf '%s' "$1" >passcode; "$PROTECTFS" unlock --passcode-fd 0 <passcode
            other() { setpriv --reuid 1900000301 --regid 1900000301 --clear-groups keyctl session - sh -c "keyctl link @u @s; $1"; }
            key=$(other "key=\$(keyctl add user protectfs:$UUID:1 x @u); keyctl setperm \$key 0x3f3f3f3f; echo \$key" | tail -n 1)
            grep -c "user *protectfs:$UUID:1:" /proc/keys
            "$PROTECTFS" lock; echo $?; "$PROTECTFS" lock --require-clean; echo $?
            "$PROTECTFS" status | grep -c 'namespace'
            "$PROTECTFS" erase --yes; echo $?
            other "keyctl unlink $key @u" >/dev/null
            """#, ["sh", CommandSandbox.passcode])
        #expect(done.text == "2\n0\n0\n0\n0\n", "\(done.text) \(done.errors)")
    }

    @Test("A grace does not prolong the limited unlock in a namespace on whose end locks elsewhere rely")
    func graceInside() throws {
        let done = try sandbox.shell(
            Self.inside + #"""
                mkfifo go end; printf '%s' "$1" >passcode; echo none >left
                UUID=$("$PROTECTFS" explain --stored --json keybag | tr -d '\n' | sed 's/.*"uuid" *: *"\([^"]*\)".*/\1/'); export UUID
                inside sh -c '
                    "$PROTECTFS" unlock --in-namespace --for 30 --passcode-fd 0 <passcode; echo $? >unlocked; read line <go
                    timeout -s INT 1 "$PROTECTFS" lock --grace 3600
                    sed -n "s/.* \([0-9a-z]*\) 3f2b0000 .* protectfs:$UUID:1: .*/\1/p" /proc/keys >found
                    mv found left; echo done >done; read line <end' &
                until [ -s unlocked ]; do sleep 0.01; done
                "$PROTECTFS" unlock --passcode-fd 0 <passcode; echo $?
                echo >go; until [ -s done ]; do sleep 0.01; done
                cat left; echo >end; wait
                """#, ["sh", CommandSandbox.passcode])
        // Both keyrings' keys are seen there: that of the unlock outside has no end.
        let lines = done.text.split(separator: "\n")
        #expect(lines.first == "0", "\(done.text) \(done.errors)")
        #expect(Set(lines.dropFirst().map { $0.last }) == ["m", "s"], "perm and seconds: \(done.text)")
    }

    @Test(
        "An unlock in another namespace is refused unless it is asked for; then a lock outside fails until there was one inside"
    )
    func unlockInside() throws {
        let secret = Data(CommandSandbox.passcode.utf8)
        let unlock = #"inside "$PROTECTFS" unlock --passcode-fd 0"#
        let refused = try sandbox.shell(Self.inside + unlock, input: secret)
        #expect(refused.status == 75)
        #expect(refused.errors.contains("protectfs unlock --in-namespace"))

        let done = try sandbox.shell(
            Self.inside + #"""
                mkfifo end
                exec 3<&0
                inside sh -c '"$PROTECTFS" unlock --in-namespace --passcode-fd 3; echo $? >unlocked; read line <end' &
                until [ -s unlocked ]; do sleep 0.01; done
                cat unlocked
                "$PROTECTFS" lock; echo $?
                "$PROTECTFS" lock 2>&1 | sed -n 's/.*hint: lock there too: \(nsenter.*\)protectfs lock.*/\1/p' >enter
                $(cat enter) "$PROTECTFS" status | head -n 1 | grep -c unlocked
                $(cat enter) "$PROTECTFS" lock; echo $?
                "$PROTECTFS" lock; echo $?
                echo >end
                wait
                """#, input: secret)
        #expect(done.text == "0\n75\n1\n0\n0\n", "\(done.errors)")
    }

    @Test(
        "An unlock that cannot read where other keys are fails, and forgets nothing",
        arguments: ["openat:error=EIO:when=1", "openat:error=EACCES:when=1", "pread64:error=EIO:when=1"])
    func unreadableRecord(fault: String) throws {
        let record = sandbox.keybagDirectory + "/rings"
        let boot = try String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8).filter(\.isHexDigit)
        let other = "77 \(boot) 0\n"
        try Data(other.utf8).write(to: URL(fileURLWithPath: record))
        let call = fault.prefix { $0 != ":" }
        let unlock = """
            strace -f -qq -o /dev/null -P '\(record)' -e trace=\(call) -e inject=\(fault) "$PROTECTFS" unlock --passcode-fd 0
            """
        let done = try sandbox.shell(unlock, input: Data(CommandSandbox.passcode.utf8))
        #expect(done.status != 0, "\(done.errors)")
        #expect(try !state.contains(": unlocked"), "only the other namespace is")
        #expect(try String(contentsOfFile: record, encoding: .utf8) == other)
    }

    @Test("An erasure in another namespace fails while the keys stay, and removes nothing")
    func eraseInside() throws {
        try sandbox.unlock()
        let before = try sandbox.keybagFiles().keys.sorted()
        let done = try sandbox.shell(Self.inside + #"inside "$PROTECTFS" erase --yes"#)
        #expect(done.status == 75, "\(done.errors)")
        #expect(done.errors.contains("hint: lock outside this namespace: protectfs lock"))
        #expect(try sandbox.keybagFiles().keys.sorted() == before)
        #expect(try state.contains("unlocked"))
        #expect(try sandbox.run("erase", "--yes").status == 0)
    }

    /// As inside, but the boot id cannot be read, as where /proc has only processes; or it is another one, as systemd-nspawn(1) has it.
    private static let withoutBootID =
        inside + #"""
            cat /proc/sys/kernel/random/uuid >other; export FILE=$1; shift
            hidden() {
                unshare --user --map-root-user --mount sh -c \
                    'mount --bind $FILE /proc/sys/kernel/random/boot_id || exit 99; exec "$@"' sh "$@"
            }

            """#
    private static let bootIDs = ["/dev/null", "other", "/proc/sys/kernel/random/uuid"]

    /// As inside, and the machine seems to have started at another time: time_namespaces(7). A process has a child there.
    private static let inOtherTime =
        inside + #"""
            UP=$(cut -d. -f1 /proc/uptime)
            ahead() { unshare --user --map-current-user --time --boottime 86400 --fork "$@"; }
            behind() { unshare --user --map-current-user --time --boottime -$((UP - 5)) --fork "$@"; }
            ahead true || exit 99

            """#

    @Test(
        "A lock where the boot id is not this boot's fails while keys outside stay, and leaves their entry",
        arguments: bootIDs)
    func lockWithoutBootID(file: String) throws {
        try sandbox.unlock()
        let done = try sandbox.shell(
            Self.withoutBootID + #"""
                hidden "$PROTECTFS" lock; echo $?
                "$PROTECTFS" status | head -n 1 | grep -c unlocked
                inside "$PROTECTFS" lock; echo $?
                "$PROTECTFS" lock; echo $?
                hidden "$PROTECTFS" lock; echo $?
                """#, ["sh", file])
        if done.text.hasPrefix("99\n") { return print("skipped: the boot id cannot be hidden here") }
        #expect(done.text == "75\n1\n75\n0\n0\n", "\(done.errors)")
    }

    @Test(
        "Keys that were loaded where the boot id is not this boot's keep a lock outside from succeeding",
        arguments: bootIDs)
    func unlockWithoutBootID(file: String) throws {
        let done = try sandbox.shell(
            Self.withoutBootID + #"""
                hidden "$PROTECTFS" unlock --in-namespace --passcode-fd 0; echo $?
                "$PROTECTFS" lock; echo $?
                """#, ["sh", file], input: Data(CommandSandbox.passcode.utf8))
        if done.text.hasPrefix("99\n") { return print("skipped: the boot id cannot be hidden here") }
        #expect(done.text == "0\n75\n", "\(done.errors)")
    }

    @Test("In a time namespace no time limit is taken for over that is not")
    func otherTime() throws {
        let done = try sandbox.shell(
            Self.inOtherTime + #"""
                printf '%s' "$1" >passcode
                "$PROTECTFS" unlock --for 2h --passcode-fd 0 <passcode; echo $?
                ahead "$PROTECTFS" lock; echo $?
                inside "$PROTECTFS" lock; echo $?
                "$PROTECTFS" lock; echo $?
                ahead "$PROTECTFS" lock; echo $?
                behind "$PROTECTFS" unlock --in-namespace --for 10m --passcode-fd 0 <passcode; echo $?
                "$PROTECTFS" lock; echo $?
                """#, ["sh", CommandSandbox.passcode])
        if done.status == 99 { return print("skipped: there are no time namespaces here: \(done.errors)") }
        #expect(done.text == "0\n75\n75\n0\n0\n0\n75\n", "\(done.errors)")
    }

    @Test("In a time namespace with the same keyring no unlock counts as over, and no later lock is armed")
    func laterClock() throws {
        let done = try sandbox.shell(
            #"""
            UP=$(cut -d. -f1 /proc/uptime)
            later() { unshare --time --boottime 1000000 --fork "$@"; }
            earlier() { unshare --time --boottime -$((UP - 5)) --fork "$@"; }
            later true || exit 99
            printf '%s' "$1" >passcode; "$PROTECTFS" unlock --for 10m --passcode-fd 0 <passcode; echo $?
            later "$PROTECTFS" status | grep -c ': unlocked since'
            "$PROTECTFS" status | grep -c ': unlocked since'
            later "$PROTECTFS" lock --grace 60 2>&1 | grep -c 'it is locked at once'
            "$PROTECTFS" status | grep -c ': locked since'
            earlier "$PROTECTFS" unlock --for 60 --passcode-fd 0 <passcode; echo $?
            for look in 1 2; do "$PROTECTFS" status | grep -c ': unlocked since'; done
            """#, ["sh", CommandSandbox.passcode])
        if done.status == 99 { return print("skipped: no time namespace can be made here: \(done.errors)") }
        #expect(done.text == "0\n1\n1\n1\n1\n0\n1\n1\n", "\(done.text) \(done.errors)")
    }

    @Test("A grace prolongs no time limit in a time namespace, nor where /proc has only processes")
    func graceWithLimit() throws {
        let done = try sandbox.shell(
            Self.inOtherTime + #"""
                printf '%s' "$1" >passcode
                UUID=$("$PROTECTFS" explain --stored --json keybag | tr -d '\n' | sed 's/.*"uuid" *: *"\([^"]*\)".*/\1/'); export UUID
                cat >try <<'END'
                    "$PROTECTFS" unlock --in-namespace --for 30 --passcode-fd 0 <passcode; echo $?
                    "$PROTECTFS" lock --grace 3600 2>&1 | grep -c 'it is locked at once'
                    "$PROTECTFS" status | head -n 1 | grep -c ': locked since'
                END
                ahead sh ./try
                "$PROTECTFS" unlock --for 30 --passcode-fd 0 <passcode; echo $?
                unshare --mount sh -c 'mount -t proc -o subset=pid proc /proc || exit 99
                    timeout -s KILL 1 "$PROTECTFS" lock --grace 3600 >/dev/null 2>&1'
                sed -n "s/.* \([0-9a-z]*\) 3f.* protectfs:$UUID:1: .*/\1/p" /proc/keys | tr -d 0-9 | sort -u
                "$PROTECTFS" lock
                """#, ["sh", CommandSandbox.passcode])
        if done.status == 99 { return print("skipped: there are no time namespaces here: \(done.errors)") }
        #expect(done.text == "0\n1\n1\n0\ns\n", "\(done.text) \(done.errors)")
    }

    @Test(
        "A rotation prolongs no time limit: by a copy of the keybag, where the boot id is hidden, or in a time namespace"
    )
    func rotatedWithLimit() throws {
        let done = try sandbox.shell(
            #"""
            printf '%s' "$1" >passcode; shift; cp -a keybag copy; mkdir tree
            UUID=$("$PROTECTFS" explain --stored --json keybag | tr -d '\n' | sed 's/.*"uuid" *: *"\([^"]*\)".*/\1/')
            left() { sed -n "s/.* \([0-9a-z]*\) 3f.* protectfs:$UUID:1: .*/\1/p" /proc/keys | tr -d 0-9 | sort -u; }
            "$PROTECTFS" unlock --for 30m --passcode-fd 0 <passcode; echo $? $(left)
            "$PROTECTFS" rotate --root tree --keybag copy --passcode-fd 0 <passcode >/dev/null; echo $? $(left)
            "$PROTECTFS" lock
            "$PROTECTFS" unlock --keybag copy --for 30m --passcode-fd 0 <passcode; echo $? $(left)
            unshare --mount sh -c 'mount --bind /dev/null /proc/sys/kernel/random/boot_id || exit 99
                "$PROTECTFS" rotate --root tree --keybag copy --passcode-fd 0 <passcode >/dev/null; echo $?'; left
            later() { unshare --time --boottime 1000000 --fork "$@"; }
            later true 2>/dev/null || { later() { "$@"; }; echo skipped: there are no time namespaces here >&2; }
            later "$PROTECTFS" rotate --root tree --keybag copy --passcode-fd 0 <passcode >/dev/null; echo $? $(left)
            "$PROTECTFS" lock --keybag copy
            """#, ["sh", CommandSandbox.passcode])
        let expected = ["0 m\n0 m\n0 m\n0\nm\n0 m\n", "0 m\n0 m\n0 m\nm\n0 m\n"]
        #expect(expected.contains(done.text), "\(done.text) \(done.errors)")
        if done.errors.contains("skipped") { print(done.errors) }
    }

    @Test("A keybag that was made in a namespace unlocks and locks there like any other")
    func madeInside() throws {
        let done = try sandbox.shell(
            Self.inside + #"""
                export PROTECTFS_KEYBAG=$PWD/inside
                inside sh -c 'printf secret | "$PROTECTFS" init --passcode-fd 0; echo $?
                    printf secret | "$PROTECTFS" unlock --passcode-fd 0; echo $?
                    "$PROTECTFS" lock; echo $?'
                """#)
        #expect(done.text == "0\n0\n0\n", "\(done.errors)")
    }
}

private enum UserNamespaces {
    static let canBeMade: Bool = {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/unshare")
        process.arguments = ["--user", "--map-current-user", "true"]
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }()
}
