import Foundation
import TestEffort
import Testing

/// What a lock leaves in the kernel's cache.
@Suite("mount: cached pages", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct MountLockTests {
    private let bed: MountBed
    private var sandbox: CommandSandbox { bed.sandbox }
    init() throws { bed = try MountBed() }

    @Test("A file that was raised to complete while a program has it mapped is gone from the cache after the lock")
    func raised() throws {
        try bed.mount()
        let done = try bed.script(
            """
            names = ['first-unlock', 'sub/unless-open', 'none']
            descriptors = {name: os.open(name, os.O_RDONLY) for name in names}
            mappings = {name: mapped(name) for name in names}  # second: an open begins with an empty cache
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
        let done = try bed.script(
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
        let done = try bed.script(
            """
            with open('../expected', 'rb') as file: expected = file.read()
            mapping, held = mapped('complete'), os.open('complete', os.O_RDONLY)
            counts, wrong, over = {'read': 0, 'ENOKEY': 0}, [], threading.Event()
            def through(descriptor):
                # A call ends early where the next page could not be read: the next call says why.
                data = b''
                while part := os.pread(descriptor, 10000, len(data)): data += part
                return data
            def reads(by_name):
                while not over.is_set():
                    try:
                        if by_name:
                            with open('complete', 'rb') as file: data = file.read()
                        else: data = through(held)
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
        let done = try bed.script(
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
        #expect(try sandbox.run("protect", "--recursive", "--yes", "d/many").status == 0)
        #expect(try sandbox.shell("ulimit -S -n 128; exec \"$PROTECTFS\" mount d point").status == 0)
        let done = try bed.script(
            """
            files = [open('many/%d' % number, 'rb') for number in range(300)]
            print(sum(int(file.read()) for file in files))
            """)
        #expect(done.text == "44850\n", "\(done.errors)")
    }

    @Test("When the kernel's timeout alone has taken the keys the pages go, though nobody asks the server for anything")
    func timeoutAlone() throws {
        try bed.mount()
        let done = try bed.script(
            """
            for _ in range(2):
                run('lock')
                run('unlock', '--for', '5', '--passcode-fd', '9')
                descriptor, mapping = os.open('complete', os.O_RDONLY), mapped('complete')
                print(resident(mapping) > 0, len(os.pread(descriptor, 1, 0)))
                # mincore(2) brings no page in.
                print(waited(lambda: resident(mapping) == 0), attempt(lambda: os.pread(descriptor, 1, 0)))
            """)
        #expect(done.text == "True 1\nTrue ENOKEY\nTrue 1\nTrue ENOKEY\n", "\(done.errors)")
    }
}
