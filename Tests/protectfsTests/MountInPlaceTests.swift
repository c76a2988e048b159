import Foundation
import Testing

@Suite("mount over the directory itself", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct MountInPlaceTests {
    private let bed: MountBed
    private var sandbox: CommandSandbox { bed.sandbox }
    init() throws { bed = try MountBed() }

    @Test("The directory shows the plaintext, through locks too, and has the stored files again when it is unmounted")
    func lifetime() throws {
        let stored = try sandbox.stored("d/complete")
        try bed.mountInPlace("--read-write")
        let done = try bed.script(
            """
            print(len(open('complete', 'rb').read()), os.stat('complete').st_size, open('sub/unless-open').read(), end='')
            open('new', 'w').write('written')
            os.rename('new', 'sub/new')
            run('lock', '--require-clean')
            print(attempt(lambda: open('complete')), open('first-unlock').read(), sorted(os.listdir('sub')))
            unlock()
            print(open('sub/new').read(), os.getxattr('sub/new', 'user.protectfs.class'))
            """, in: "d")
        #expect(
            done.text == """
                100000 100000 b
                ENOKEY c
                 ['new', 'unless-open']
                written b'first-unlock'

                """, "\(done.errors)")
        #expect(try sandbox.run("unmount", "d").status == 0)
        #expect(try sandbox.stored("d/complete") == stored)
        #expect(try sandbox.shell("head -c 4 d/sub/new").output.elementsEqual([0x89, 0x50, 0x46, 0x53]))
        #expect(try sandbox.run("cat", "d/sub/new").text == "written")
        #expect(try sandbox.run("mount", "d").status == 0)
        #expect(try sandbox.shell("cat d/sub/new").text == "written")
    }

    @Test("A mount that would hide the keybag, the device key or another mount is refused, and says which")
    func refused() throws {
        let keybag = try sandbox.run("mount", ".")
        #expect(keybag.status == 64)
        #expect(keybag.errors.contains("cannot be mounted over itself: the keybag"), "\(keybag.errors)")
        let device = try sandbox.shell(
            """
            export PROTECTFS_KEYBAG="$PWD/kb2"
            printf secret | XDG_STATE_HOME="$PWD/states" "$PROTECTFS" init --passcode-fd 0 && "$PROTECTFS" mount states
            """)
        #expect(device.status == 64, "XDG_STATE_HOME was another one when the device key was made: \(device.errors)")
        #expect(device.errors.contains("or its device key is in it"), "\(device.errors)")
        #expect(try sandbox.run("mount", "d/sub").status == 0)
        let inner = try sandbox.run("mount", "d")
        #expect(inner.status == 64)
        #expect(inner.errors.contains("/d/sub' is in it"), "\(inner.errors)")
        #expect(try sandbox.run("mount", "d/sub").status == 73)
        #expect(try sandbox.run("unmount", "d/sub").status == 0)
        #expect(try sandbox.run("mount", "d").status == 0)
        let within = try sandbox.run("mount", "d/sub")
        #expect(within.status == 64)
        #expect(within.errors.contains("is in a mount of protectfs"), "\(within.errors)")
        #expect(try sandbox.shell("cat d/first-unlock").text == "c\n")
    }

    @Test("Programs are named by what they have of the mount, not of the directory below it")
    func holders() throws {
        let done = try bed.script(
            """
            below = open('d/first-unlock', 'rb')
            run('mount', 'd')
            run('unmount', 'd')
            run('mount', 'd')
            os.chdir('d')
            busy = verb('unmount', '.')
            print(busy.returncode, '(process %d)' % os.getpid() in busy.stderr)
            os.chdir('..')
            held = open('d/first-unlock')
            mounts = json.loads(verb('mount', '--json').stdout)
            mine = [m for m in mounts if m['point'] == os.getcwd() + '/d']
            print([(m['point'] == m['directory'], m['readOnly'], m['served']) for m in mine])
            print([[f['path'] for f in p['files']] == [os.getcwd() + '/d/first-unlock'] for m in mine for p in m['programs']])
            held.close()
            run('unmount', 'd')
            print(below.read(4))
            """, isInside: false)
        #expect(
            done.text == """
                75 True
                [(True, True, True)]
                [True]
                b'\\x89PFS'

                """, "\(done.errors)")
    }

    @Test("A server that was killed: a lock says it, and unmount gives the stored files back")
    func killed() throws {
        try bed.mountInPlace()
        let done = try bed.script(
            """
            mapping, dead = mapped('d/complete'), server()
            kill(dead)
            waited(lambda: attempt(lambda: os.listdir('d')) == 'ENOTCONN')
            lock = verb('lock', '--require-clean')
            print(lock.returncode, '(process %d) can still read' % os.getpid() in lock.stderr)
            verified = verb('verify', 'd/complete')
            print(verified.returncode, 'does not say where its files are stored' in verified.stderr)
            print(verb('mount', 'd').returncode)
            mapping.close()
            run('unmount', 'd')
            run('lock', '--require-clean')
            print(open('d/complete', 'rb').read(4), os.listdir(notes))
            """, isInside: false)
        #expect(done.text == "75 True\n75 True\n73\nb'\\x89PFS' []\n", "\(done.errors)")
    }

    @Test("A stopped server holds up neither a lock nor the list of mounts, and is named")
    func stopped() throws {
        try bed.mountInPlace("--read-write")
        let done = try bed.script(
            """
            descriptor = os.open('d/complete', os.O_RDONLY)
            os.read(descriptor, 10)
            stop(server())
            lock, listed = verb('lock', '--require-clean'), verb('mount')
            os.kill(server(), signal.SIGCONT)
            print(lock.returncode, '(process %d) did not respond' % server() in lock.stderr)
            print('/d: read-write, ' in listed.stdout)
            run('lock', '--require-clean')
            """, isInside: false)
        #expect(done.text == "75 True\nTrue\n", "\(done.errors)")
    }

    @Test("Bytes that another program appended to the stored file are kept beside it, and seen there")
    func keptBeside() throws {
        _ = try sandbox.shell("printf foreign >>d/first-unlock")
        try bed.mountInPlace("--read-write")
        let done = try bed.script(
            """
            with open('first-unlock', 'a') as file: file.write('more')
            print(open('first-unlock').read(), sorted(name for name in os.listdir() if 'appended' in name))
            print(open('first-unlock.appended-1').read())
            """, in: "d")
        #expect(done.text == "c\nmore ['first-unlock.appended-1']\nforeign\n", "\(done.errors)")
    }

    @Test("Messages name files as the user knows them, and a log with segments is refused")
    func names() throws {
        try bed.mountInPlace("--read-write")
        let done = try bed.script(
            """
            descriptor = os.open('d/sub/unless-open', os.O_RDONLY)
            lock = verb('lock')
            print(lock.returncode, os.getcwd() + "/d/sub/unless-open'" in lock.stderr, '/proc/' in lock.stderr)
            log = verb('write', '--append', '--segments', 'd/log')
            print(log.returncode, "'d/log' is in a mount" in log.stderr, os.path.exists('d/log'))
            """, isInside: false)
        #expect(done.text == "0 True False\n77 True False\n", "\(done.errors)")
    }

    @Test("The server is asked at a name that nobody can have taken before it")
    func randomName() throws {
        var names: Set<String> = []
        for _ in 0..<2 {
            try bed.mountInPlace()
            let name = try sandbox.shell("findmnt -no SOURCE d").text.trimmingCharacters(in: .newlines)
            #expect(name.contains(#/^protectfs-[0-9a-f]{8,16}$/#), "\(name)")
            #expect(try sandbox.shell("grep -c \"@$0\" /proc/net/unix", [name]).text == "1\n")
            #expect(try sandbox.run("unmount", "d").status == 0)
            names.insert(name)
        }
        #expect(names.count == 2)
    }
}
