import Foundation
import TestEffort
import Testing

/// What a lock leaves in the kernel's cache.
@Suite("mount: cached pages", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct MountLockTests {
    private let bed: MountBed
    private var sandbox: CommandSandbox { bed.sandbox }
    init() throws { bed = try MountBed() }

    /// Python for all tests here: `resident(mapping)` counts pages by mincore(2), `run` runs a verb, `attempt` catches an errno.
    private static let prelude = """
        import ctypes, errno, mmap, os, subprocess, sys, threading, time
        libc = ctypes.CDLL(None, use_errno=True)
        def resident(mapping):
            view = ctypes.c_char.from_buffer(mapping)
            vector = (ctypes.c_ubyte * ((len(mapping) + 4095) // 4096))()
            assert libc.mincore(ctypes.c_void_p(ctypes.addressof(view)), ctypes.c_size_t(len(mapping)), vector) == 0
            del view
            return sum(byte & 1 for byte in vector)
        def attempt(call):
            try: return call()
            except OSError as error: return errno.errorcode[error.errno]
        def run(*verb):
            os.lseek(9, 0, os.SEEK_SET)
            done = subprocess.run([os.environ['PROTECTFS']] + list(verb), pass_fds=[9], stderr=subprocess.PIPE)
            assert done.returncode == 0, (verb, done)
        def unlock(): run('unlock', '--passcode-fd', '9')
        def mapped(name):
            with open(name, 'rb') as file: mapping = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE)
            assert len(bytes(mapping)) == os.stat(name).st_size
            return mapping

        """

    /// Runs a script in the mount, with the passcode as descriptor 9.
    private func python(_ script: String, _ arguments: String...) throws -> Finished {
        try sandbox.shell(
            "printf %s \"$1\" >passcode && script=$0 && shift && cd point && exec python3 -c \"$script\" \"$@\" 9<../passcode",
            [Self.prelude + script, CommandSandbox.passcode] + arguments)
    }

    @Test("A file that was raised to complete while a program has it mapped is gone from the cache after the lock")
    func raised() throws {
        try bed.mount()
        let done = try python(
            """
            names = ['first-unlock', 'sub/unless-open', 'none']
            mappings = {name: mapped(name) for name in names}
            descriptors = {name: os.open(name, os.O_RDONLY) for name in names}
            print([resident(mapping) for mapping in mappings.values()])
            run('class', '../d/first-unlock', 'complete')
            run('class', '../d/sub/unless-open', 'complete')
            run('lock', '--require-clean')
            print([resident(mapping) for mapping in mappings.values()])
            print([attempt(lambda: os.pread(descriptor, 9, 0)) for descriptor in descriptors.values()])
            unlock()
            print([attempt(lambda: os.pread(descriptor, 9, 0)) for descriptor in descriptors.values()])
            """)
        #expect(
            done.text == """
                [1, 1, 1]
                [0, 0, 1]
                ['ENOKEY', 'ENOKEY', b'd\\n']
                [b'c\\n', b'b\\n', b'd\\n']

                """, "\(done.errors)")
    }

    @Test("A second lock drops what was raised after the first one, although nobody has read it since")
    func raisedLater() throws {
        try bed.mount()
        let done = try python(
            """
            mapping = mapped('first-unlock')
            run('lock', '--require-clean')
            print(resident(mapping))
            unlock()
            run('class', '../d/first-unlock', 'complete')
            run('lock', '--require-clean')
            print(resident(mapping))
            """)
        #expect(done.text == "1\n0\n", "\(done.errors)")
    }

    @Test("With locks every 50 ms beside readers, each one is clean, and then no page is left and no read succeeds")
    func storm() throws {
        try bed.mount()
        try bed.store(MountBed.contents, at: "expected")
        let done = try python(
            """
            with open('../expected', 'rb') as file: expected = file.read()
            mapping, held = mapped('complete'), os.open('complete', os.O_RDONLY)
            counts, wrong, over = {'read': 0, 'ENOKEY': 0}, [], threading.Event()
            def reads(by_name):
                while not over.is_set():
                    try:
                        if by_name:
                            with open('complete', 'rb') as file: data = file.read()
                        else: data = b''.join(os.pread(held, 10000, at) for at in range(0, len(expected), 10000))
                        counts['read'] += 1
                        if data != expected: wrong.append(len(data))
                    except OSError as error:
                        if error.errno != errno.ENOKEY: wrong.append(error)
                        counts['ENOKEY'] += 1
            threads = [threading.Thread(target=reads, args=(number % 2 == 0,)) for number in range(4)]
            for thread in threads: thread.start()
            left = []
            for _ in range(int(sys.argv[1])):
                run('lock', '--require-clean')
                left.append((resident(mapping), attempt(lambda: os.pread(held, 1, 0))))
                unlock()
                time.sleep(0.05)
            over.set()
            for thread in threads: thread.join()
            print(set(left), wrong, min(counts.values()) > 0)
            """, "\(Effort.count(10, 500))")
        #expect(done.text == "{(0, 'ENOKEY')} [] True\n", "\(done.errors)")
    }

    @Test("Pages of other classes stay, and open unless-open files are read through locks until they are closed")
    func others() throws {
        try bed.mount()
        let done = try python(
            """
            names = ['sub/unless-open', 'first-unlock', 'none', 'plain']
            mappings = [mapped(name) for name in names]
            run('lock', '--require-clean')
            print([resident(mapping) for mapping in mappings], [mapping[:2] for mapping in mappings])
            print([attempt(lambda: open(name, 'rb').read()) for name in names])
            for mapping in mappings: mapping.close()
            print([attempt(lambda: open(name, 'rb').read()) for name in names])
            """)
        #expect(
            done.text == """
                [1, 1, 1, 1] [b'b\\n', b'c\\n', b'd\\n', b'pl']
                ['ENOKEY', b'c\\n', b'd\\n', b'plain\\n']
                ['ENOKEY', b'c\\n', b'd\\n', b'plain\\n']

                """, "\(done.errors)")
    }

    @Test("More files can be open than the soft limit of the shell that mounted")
    func manyFiles() throws {
        for number in 0..<300 { try bed.store(Data("\(number)".utf8), at: "d/many/\(number)") }
        #expect(try sandbox.run("protect", "--recursive", "d/many").status == 0)
        #expect(try sandbox.shell("ulimit -S -n 128; exec \"$PROTECTFS\" mount d point").status == 0)
        let done = try python(
            """
            files = [open('many/%d' % number, 'rb') for number in range(300)]
            print(sum(int(file.read()) for file in files))
            """)
        #expect(done.text == "44850\n", "\(done.errors)")
    }
}

/// Not root, for whom modes of files mean nothing.
@Suite(
    "mount: an ordinary user", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"),
    .enabled(if: EndToEndUser.canMakeUsers, EndToEndUser.whyNot))
struct MountUserTests {
    @Test("An ordinary user mounts; nobody else reads there, and nothing is saved at the point afterwards")
    func ordinary() throws {
        let user = try EndToEndUser.made()
        try user.unlock()
        try user.write(user.home.appending("file"), "complete", Array("text\n".utf8))
        let done = try user.run([
            "sh", "-c",
            """
            PROTECTFS=\(user.programs.appending("protectfs")); cd; mkdir d point; mv file d
            "$PROTECTFS" mount d point; cat point/file; pid=$(pgrep -u "$(id -u)" protectfs-mount)
            for name in mem environ maps; do cat /proc/$pid/$name >/dev/null 2>&1 && echo "$name can be read"; done
            grep 'Max core' /proc/$pid/limits | tr -s ' '
            """,
        ])
        #expect(done.text == "text\nMax core file size 1 1 bytes \n", "\(done)\(done.errors)")
        // Root is another user here, as the kernel sees it: no allow_other.
        #expect(throws: (any Error).self) { try Data(contentsOf: URL(fileURLWithPath: "\(user.home)/point/file")) }
        let after = try user.run([
            "sh", "-c",
            """
            PROTECTFS=\(user.programs.appending("protectfs")); cd
            "$PROTECTFS" lock --require-clean; cat point/file; "$PROTECTFS" unmount point && echo ended
            echo plaintext >point/saved; ls -A point
            """,
        ])
        #expect(after.text == "ended\n", "\(after)\(after.errors)")
        #expect(after.errors.contains("Required key not available"), "\(after.errors)")
    }
}
