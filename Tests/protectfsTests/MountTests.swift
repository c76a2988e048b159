import Foundation
import TestEffort
import Testing

@Suite("mount", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct MountTests {
    private let bed: MountBed
    private var sandbox: CommandSandbox { bed.sandbox }
    init() throws { bed = try MountBed() }

    @Test("Other programs read the plaintext, and see true sizes, names and classes in every lock state")
    func looking() throws {
        try bed.mount()
        try bed.store(MountBed.contents, at: "expected")
        let read = try sandbox.shell("cd point && cmp link ../expected && cat first-unlock none plain sub/unless-open")
        #expect(read.status == 0, "\(read.errors)")
        #expect(read.text == "c\nd\nplain\nb\n")
        for isLocked in [false, true] {
            if isLocked { try sandbox.run("lock") }
            let list = try sandbox.shell("cd point && find . -printf '%y %s %p\\n' | grep -v '^d' | sort")
            #expect(
                list.text == """
                    f 100000 ./complete
                    f 2 ./first-unlock
                    f 2 ./none
                    f 2 ./sub/unless-open
                    f 6 ./plain
                    l 8 ./link

                    """, "locked: \(isLocked)")
            let attribute = try bed.python("import os; print(os.getxattr('complete', 'user.protectfs.class').decode())")
            #expect(attribute.text == "complete\n", "\(attribute.errors)")
        }
    }

    @Test("While locked, files open as their class allows; an open descriptor works again after the unlock")
    func locked() throws {
        try bed.mount()
        let script = """
            import errno, os, subprocess, sys
            def attempt(call):
                try: return call()
                except OSError as error: return errno.errorcode[error.errno]
            open_files = {name: os.open(name, os.O_RDONLY) for name in ('complete', 'sub/unless-open', 'first-unlock')}
            for verb in ('lock', 'unlock'):
                subprocess.run([os.environ['PROTECTFS'], verb] + sys.argv[1:] * (verb == 'unlock'), pass_fds=[9], check=True,
                               stderr=subprocess.DEVNULL)
                for name, descriptor in open_files.items():
                    print(verb, name, attempt(lambda: os.pread(descriptor, 1, 0)), attempt(lambda: open(name, 'rb').read(1)))
            print(attempt(lambda: open('none', 'w')), attempt(lambda: os.unlink('plain')), attempt(lambda: os.mkdir('x')))
            """
        let done = try sandbox.shell(
            "printf %s \"$1\" >passcode && cd point && exec python3 -c \"$0\" --passcode-fd 9 9<../passcode",
            [script, CommandSandbox.passcode])
        #expect(
            done.text == """
                lock complete ENOKEY ENOKEY
                lock sub/unless-open b'b' ENOKEY
                lock first-unlock b'c' b'c'
                unlock complete b'\\x00' b'\\x00'
                unlock sub/unless-open b'b' b'b'
                unlock first-unlock b'c' b'c'
                EROFS EROFS EROFS

                """, "\(done.errors)")
    }

    @Test("When lock returns, no page of a complete file is cached: mincore(2) of a mapping, and its next touch")
    func pagesAreGone() throws {
        for number in 0..<Effort.count(1000, 10_000) {
            try bed.store(MountBed.contents.prefix(5000), at: "d/many/\(number)")
        }
        #expect(try sandbox.run("protect", "--recursive", "--yes", "d/many").status == 0)
        try bed.mount()
        let script = """
            import ctypes, mmap, os, signal, subprocess
            libc = ctypes.CDLL(None, use_errno=True)
            def resident(mapping):
                view = ctypes.c_char.from_buffer(mapping)
                pages = (len(mapping) + 4095) // 4096
                vector = (ctypes.c_ubyte * pages)()
                assert libc.mincore(ctypes.c_void_p(ctypes.addressof(view)), ctypes.c_size_t(len(mapping)), vector) == 0
                del view
                return sum(byte & 1 for byte in vector)
            names = ['complete', 'first-unlock'] + ['many/' + name for name in os.listdir('many')]
            mappings = {}
            for name in names:
                with open(name, 'rb') as file:
                    mappings[name] = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE)
                assert len(bytes(mappings[name])) == os.stat(name).st_size
            before = {name: resident(mapping) for name, mapping in mappings.items()}
            assert all(before.values()), before
            subprocess.run([os.environ['PROTECTFS'], 'lock', '--require-clean'], check=True, stderr=subprocess.DEVNULL)
            after = {name: resident(mapping) for name, mapping in mappings.items()}
            print(sum(count for name, count in after.items() if name != 'first-unlock'), after['first-unlock'])
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGBUS, signal.SIG_DFL)
                mappings['complete'][0]
                os._exit(0)
            print(signal.Signals(os.WTERMSIG(os.waitpid(child, 0)[1])).name)
            """
        let done = try bed.python(script)
        #expect(done.text == "0 1\nSIGBUS\n", "\(done.errors)")
    }

    @Test("Readers beside lock after lock read right bytes or ENOKEY, and each lock is clean")
    func locksUnderReaders() throws {
        try bed.mount()
        let script = """
            import errno, os, subprocess, sys, threading
            with open('../expected', 'rb') as file: expected = file.read()
            counts, wrong, done = {'read': 0, 'ENOKEY': 0}, [], threading.Event()
            def reads():
                while not done.is_set():
                    try:
                        with open('complete', 'rb') as file: data = file.read()
                        counts['read'] += 1
                        if data != expected: wrong.append(len(data))
                    except OSError as error:
                        if error.errno != errno.ENOKEY: wrong.append(error)
                        counts['ENOKEY'] += 1
            threads = [threading.Thread(target=reads) for _ in range(3)]
            for thread in threads: thread.start()
            statuses = []
            for _ in range(int(sys.argv[1])):
                for verb in (['lock', '--require-clean'], ['unlock', '--passcode-fd', '9']):
                    os.lseek(9, 0, os.SEEK_SET)
                    statuses.append(subprocess.run([os.environ['PROTECTFS']] + verb, pass_fds=[9], stderr=subprocess.PIPE))
            done.set()
            for thread in threads: thread.join()
            print([(run.returncode, run.stderr) for run in statuses if run.returncode], wrong, min(counts.values()) > 0)
            """
        try bed.store(MountBed.contents, at: "expected")
        let done = try sandbox.shell(
            "printf %s \"$1\" >passcode && cd point && exec python3 -c \"$0\" \"$2\" 9<../passcode",
            [script, CommandSandbox.passcode, "\(Effort.count(5, 200))"])
        #expect(done.text == "[] [] True\n", "\(done.errors)")
    }

    @Test("A server that is stopped keeps a lock from being clean, and is named")
    func stopped() throws {
        try bed.mount()
        #expect(try sandbox.shell("cat point/complete >/dev/null").status == 0)
        #expect(try sandbox.shell("kill -STOP $(pgrep -f \"protectfs-mount.*$PWD/point\")").status == 0)
        let lock = try sandbox.run("lock", "--require-clean")
        #expect(try sandbox.shell("kill -CONT $(pgrep -f \"protectfs-mount.*$PWD/point\")").status == 0)
        #expect(lock.status == 75)
        #expect(lock.errors.contains("'protectfs-mount' (process"), "\(lock.errors)")
        #expect(try sandbox.run("lock", "--require-clean").status == 0)
    }

    @Test("It starts before the first unlock, and shows what can be opened then")
    func beforeFirstUnlock() throws {
        sandbox.evictKeys(of: sandbox.keybagDirectory)
        try bed.mount()
        let read = try sandbox.shell("cd point && cat none plain; cat first-unlock complete sub/unless-open")
        #expect(read.text == "d\nplain\n")
        #expect(read.errors.components(separatedBy: "Required key not available").count == 4, "\(read.errors)")
        try sandbox.unlock()
        #expect(try sandbox.shell("cd point && cat first-unlock sub/unless-open").text == "c\nb\n")
    }

    @Test("Damaged and foreign files are listed, and refuse to open")
    func damaged() throws {
        let whole = try sandbox.stored("d/complete")
        try bed.store(whole.prefix(300) + Data(repeating: 0, count: whole.count - 300), at: "d/damaged")
        try bed.store(Data("\n".utf8) + whole.dropFirst(), at: "d/mangled")
        let other = try CommandSandbox()
        try other.unlock()
        try other.protectedFile("foreign", Data("x".utf8))
        try bed.store(try other.stored("foreign"), at: "d/foreign")
        try bed.mount()
        let script = """
            import errno, os
            for name in ('damaged', 'mangled', 'foreign'):
                assert name in os.listdir()
                try: print(name, len(open(name, 'rb').read()))
                except OSError as error: print(name, errno.errorcode[error.errno])
            """
        let done = try bed.python(script)
        #expect(done.text == "damaged EIO\nmangled EIO\nforeign ENOKEY\n", "\(done.errors)")
    }

    @Test("Nothing outside of the directory is reached, by links that are swapped in meanwhile either")
    func swappedLinks() throws {
        try sandbox.put("outside\n", at: "outside/secret")
        try sandbox.put("inside\n", at: "d/dir/secret")
        try bed.mount()
        #expect(try sandbox.shell("cat point/dir/secret").text == "inside\n")
        let swapped = try sandbox.shell(
            "mv d/dir d/kept && ln -s \"$PWD/outside\" d/dir && sleep 1.2 && cat point/dir/secret")
        // The link is shown as the link that it is: it leads where it leads for every program.
        #expect(swapped.text == "outside\n", "\(swapped.errors)")
        let race = """
            import os
            os.rename('../d/kept', '../d/dir2')
            held = os.open('dir2', os.O_RDONLY)
            os.rename('../d/dir2', '../d/moved')
            os.symlink('../outside', '../d/dir2')
            try: print(os.read(os.open('secret', os.O_RDONLY, dir_fd=held), 20))
            except OSError as error: print(error.errno)
            """
        let done = try bed.python(race)
        #expect(!done.text.isEmpty && !done.text.contains("outside"), "\(done.text) \(done.errors)")
    }

    @Test("The mount point is read-only while nothing is mounted, so that nothing is saved there by mistake")
    func unmounted() throws {
        try bed.mount()
        #expect(try sandbox.run("mount", "d", "point").status == 73)
        let busy = try sandbox.shell("exec 3<point/plain; \"$PROTECTFS\" unmount point")
        #expect(busy.status == 75, "\(busy.errors)")
        #expect(try sandbox.run("unmount", "point").status == 0)
        let mode = try FileManager.default.attributesOfItem(atPath: sandbox.path("point"))[.posixPermissions] as? Int
        #expect(mode == 0o500)
        let again = try sandbox.run("unmount", "point")
        #expect(again.status == 66)
        #expect(again.errors.contains("no mount of protectfs"), "\(again.errors)")
        #expect(try sandbox.run("mount", "d", "point").status == 0)
    }

    @Test("A mount that is not possible is refused, and nothing is changed")
    func refused() throws {
        #expect(try sandbox.run("mount", "d", "d/sub").status == 64)
        #expect(try sandbox.run("mount", "d/sub", "d").status == 64)
        #expect(try sandbox.run("mount", "nothing", "point").status == 66)
        #expect(try sandbox.run("mount", "d", "nothing").status == 66)
        try sandbox.put("x", at: "full/file")
        let full = try sandbox.run("mount", "d", "full")
        #expect(full.status == 73)
        #expect(full.errors.contains("is not empty"), "\(full.errors)")
        #expect(try sandbox.run("mount", "d", "full/file").status == 64)
    }

    @Test("FIFOs, symbolic links and hard links are shown as they are")
    func otherKinds() throws {
        let made = try sandbox.shell("cd d && mkfifo fifo && ln -s /nowhere dangling && ln complete hard")
        #expect(made.status == 0, "\(made.errors)")
        try bed.mount()
        let script = """
            import errno, os, stat
            print(stat.S_ISFIFO(os.stat('fifo').st_mode), os.readlink('dangling'))
            print(os.stat('hard').st_ino == os.stat('complete').st_ino, os.stat('hard').st_nlink, os.stat('hard').st_size)
            os.close(os.open('fifo', os.O_RDONLY | os.O_NONBLOCK))
            try: open('dangling')
            except OSError as error: print(errno.errorcode[error.errno])
            print(sorted(os.listdir()))
            """
        let done = try bed.python(script)
        #expect(
            done.text == """
                True /nowhere
                True 2 100000
                ENOENT
                ['complete', 'dangling', 'fifo', 'first-unlock', 'hard', 'link', 'none', 'plain', 'sub']

                """, "\(done.errors)")
    }

    @Test("A signal unmounts, in the foreground too")
    func signalled() throws {
        let done = try sandbox.shell(
            """
            "$PROTECTFS" mount --foreground d point & server=$!
            for try in $(seq 100); do [ -e point/plain ] && break; sleep 0.05; done
            cat point/plain; kill -TERM $server; wait $server; echo "status $?"; ls -A point
            """)
        #expect(done.text == "plain\nstatus 0\n", "\(done.errors)")
    }
}
