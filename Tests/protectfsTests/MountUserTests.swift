import Foundation
import Testing

/// Not root, for whom modes of files mean nothing.
@Suite(
    "mount: an ordinary user", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"),
    .enabled(if: EndToEndUser.canMakeUsers, EndToEndUser.whyNot))
struct MountUserTests {
    private let user: EndToEndUser

    init() throws {
        user = try EndToEndUser.made()
        try user.unlock()
        try user.write(user.home.appending("file"), "complete", Array("text\n".utf8))
    }

    /// Runs a script as the user, and then one as root, in a mount namespace of their own, where every user may open /dev/fuse as on any
    /// desktop: in containers only root may.
    ///
    /// - Returns: nil where no such device can be made, which is printed.
    private func run(
        _ script: String, thenAsRoot second: String = "", then third: String = "", deviceMode: String = "666"
    ) throws -> EndToEndRun? {
        let device = FileManager.default.temporaryDirectory.path + "/protectfs-fuse-device-\(UUID().uuidString)"
        defer { unlink(device) }
        let begin = "PROTECTFS='\(user.programs.appending("protectfs"))'; cd; "
        func quoted(_ words: [String]) -> String {
            words.map { "'" + $0.replacing("'", with: "'\\''") + "'" }.joined(separator: " ")
        }
        func asUser(_ script: String) -> String {
            script.isEmpty ? ":" : quoted(user.words(["sh", "-c", begin + script], in: .plain))
        }
        let done = try EndToEndRun(
            [
                "unshare", "--mount", "--propagation", "private", "sh", "-c",
                """
                mknod -m \(deviceMode) '\(device)' c 10 229 && mount --bind '\(device)' /dev/fuse || { echo no device; exit; }
                cd '\(user.home)'
                \(asUser(script))
                \(second)
                \(asUser(third))
                umount --lazy point 2>/dev/null
                """,
            ], environment: user.environment)
        guard done.text != "no device\n" else {
            print("no device can be made here: \(done.errors)")
            return nil
        }
        return done
    }

    @Test("An ordinary user mounts; nobody else reads there, and nothing is saved at the point afterwards")
    func ordinary() throws {
        let done = try run(
            """
            mkdir d point; mv file d; "$PROTECTFS" mount d point; cat point/file; pids=$(pgrep -u "$(id -u)" protectfs-mount)
            for pid in $pids; do for name in mem environ maps; do
                cat /proc/$pid/$name >/dev/null 2>&1 && echo "$name can be read"
            done; done
            grep -h 'Max core' /proc/${pids%%[!0-9]*}/limits | tr -s ' '
            """,
            // As the kernel sees it, root is another user: no allow_other.
            thenAsRoot: "cat point/file || echo refused",
            then: """
                "$PROTECTFS" lock --require-clean; cat point/file; "$PROTECTFS" unmount point && echo ended
                echo plaintext >point/saved; ls -A point
                """)
        guard let done else { return }
        #expect(done.text == "text\nMax core file size 1 1 bytes \nrefused\nended\n", "\(done)\(done.errors)")
        #expect(done.errors.contains("cat: point/file: Permission denied"), "\(done.errors)")
        #expect(done.errors.contains("cat: point/file: Required key not available"), "\(done.errors)")
        #expect(done.errors.contains("point/saved: Permission denied"), "\(done.errors)")
    }

    @Test("Where the user may not open /dev/fuse, mount says that, and not to install a package")
    func deviceRefused() throws {
        let done = try run("mkdir d point; \"$PROTECTFS\" mount d point; echo $?", deviceMode: "600")
        guard let done else { return }
        #expect(done.text == "69\n", "\(done)")
        #expect(done.errors.contains("/dev/fuse cannot be opened: permission denied"), "\(done.errors)")
        #expect(done.errors.contains("chmod 666 /dev/fuse") && !done.errors.contains("install"), "\(done.errors)")
    }

    @Test("A server that may have no more threads drops pages at a lock, and commits what was written")
    func noThread() throws {
        try user.write(user.home.appending("other"), "complete", Array("other\n".utf8))
        let done = try run(
            """
            mkdir d point; mv file other d; "$PROTECTFS" mount --read-write d point
            prlimit --pid $(pgrep -u "$(id -u)" protectfs-mount) --nproc=1:1
            exec 3<point/file 4>point/new; cat point/file point/other
            echo new >&4; sleep 2; "$PROTECTFS" cat d/new; exec 4>&-
            "$PROTECTFS" lock --require-clean; echo "lock $?"
            cat point/file; cat <&3; exec 3<&-
            "$PROTECTFS" unmount point && echo ended
            """)
        guard let done else { return }
        #expect(done.text == "text\nother\nnew\nlock 0\nended\n", "\(done)\(done.errors)")
        #expect(done.errors.contains("cat: point/file: Required key not available"), "\(done.errors)")
        #expect(done.errors.contains("cat: -: Required key not available"), "\(done.errors)")
    }

    /// Not as root: such a lock takes the keys of every keybag of the user.
    @Test("A lock of a keybag that is damaged reaches the mount all the same")
    func damagedKeybag() throws {
        let done = try run(
            """
            mkdir d point; mv file d; "$PROTECTFS" mount d point; exec 3<point/file; head -c 4 <&3; echo
            for number in 0 1; do echo junk >'\(user.keybag.directory)'/keybag.$number; done
            "$PROTECTFS" lock --require-clean 2>/dev/null; echo $?; cat <&3; "$PROTECTFS" unmount point
            """)
        guard let done else { return }
        #expect(done.text == "text\n0\n", "\(done)\(done.errors)")
        #expect(done.errors.contains("cat: -: Required key not available"), "\(done.errors)")
    }

    @Test("An ordinary user's killed server and guardian: lock names who can still read, and unmount cleans up")
    func killedServer() throws {
        let done = try run(
            """
            mkdir d point; mv file d; "$PROTECTFS" mount d point; exec 3<point/file; head -c 5 <&3
            pkill -9 -u "$(id -u)" -f '^protectfs-mount --guard'
            pkill -9 -u "$(id -u)" -x protectfs-mount
            while cat point/file >/dev/null 2>&1; do sleep 0.05; done
            for try in held closed; do
                "$PROTECTFS" lock --require-clean; echo "lock $?"; "$PROTECTFS" unmount point; echo "unmount $?"; exec 3<&-
            done
            "$PROTECTFS" lock --require-clean; echo "lock $?"; ls -A point; : >point/saved
            """)
        guard let done else { return }
        #expect(done.text == "text\nlock 75\nunmount 75\nlock 75\nunmount 0\nlock 0\n", "\(done)\(done.errors)")
        let reader = ") can still read what is cached of '\(user.home)/point/file'"
        #expect(done.errors.contains(reader), "\(done.errors)")
    }

    @Test("An ordinary user mounts over the directory itself, lists it, and ends all mounts at once")
    func inPlace() throws {
        let done = try run(
            """
            mkdir d e; mv file d; echo plain >e/plain; "$PROTECTFS" mount --read-write d; "$PROTECTFS" mount e
            "$PROTECTFS" mount; cat d/file; echo new >d/new; "$PROTECTFS" class d/new d/file
            "$PROTECTFS" mount --at-login d 2>&1 | grep -c systemd; cat .config/protectfs/mounts
            "$PROTECTFS" lock --require-clean; cat d/file; exec 3<e/plain
            "$PROTECTFS" unmount --all; echo "unmount $?"; exec 3<&-
            "$PROTECTFS" unmount --all; echo "unmount $?"; head -c 4 d/file | tail -c 3; echo; ls -A e
            """,
            thenAsRoot: "cat d/new >/dev/null && echo 'root reads what is stored'")
        guard let done else { return }
        #expect(
            done.text == """
                \(user.home)/d: read-write, over the directory itself
                \(user.home)/e: read-only, over the directory itself
                text
                first-unlock\td/new
                complete\td/file
                1
                read-only \(user.home)/d
                unmount 75
                unmount 0
                PFS
                plain
                root reads what is stored

                """, "\(done)\(done.errors)")
        #expect(done.errors.contains("cat: d/file: Required key not available"), "\(done.errors)")
    }
}
