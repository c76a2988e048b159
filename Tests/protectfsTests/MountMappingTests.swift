import Foundation
import TestEffort
import Testing

/// Shared mappings that programs store into: their pages come when the kernel likes, after a lock too.
@Suite("mount --read-write: mappings", .enabled(if: whyNoSharedMapping == nil, "\(whyNoSharedMapping ?? "")"))
struct MountMappingTests {
    private let bed: MountBed
    private var sandbox: CommandSandbox { bed.sandbox }

    init() throws {
        bed = try MountBed()
        try bed.mount("--read-write")
    }

    /// Runs Python in the mount. `mapShared` maps a file. `comeLate` has the kernel deliver what `store` stores in mappings when the keys have
    /// gone: until then the server is stopped.
    private func script(_ script: String, _ arguments: String...) throws -> Finished {
        let prelude = """
            def mapShared(descriptor):
                mapping = mmap.mmap(descriptor, 0)
                # The end of a mapping, or of a descriptor, waits for the server, in a child too.
                mapping.madvise(mmap.MADV_DONTFORK)
                mappings.append(mapping)
                return mapping
            mappings = []
            shell = subprocess.Popen(['sh'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd='/')
            def comeLate(store):
                # What is not in memory would be asked for.
                for mapping in mappings:
                    if not mapping.closed: bytes(mapping)
                process = server()
                stop(process)
                store()
                shell.stdin.write('"$PROTECTFS" lock >/dev/null 2>&1; echo\\n')
                shell.stdin.flush()
                shell.stdout.readline()
                os.kill(process, signal.SIGCONT)

            """
        return try bed.script(prelude + script, arguments)
    }

    @Test("Mappings, writes and reads see one file, in the mount and below")
    func coherent() throws {
        let done = try script(
            """
            with open('complete', 'r+b') as file: mapping = mapShared(file.fileno())
            other = os.open('complete', os.O_RDWR)
            mapping[5000:5006] = b'stored'
            print(os.pread(other, 6, 5000), os.pwrite(other, b'written', 70000), mapping[70000:70007])
            mapping.flush()
            print(verb('cat', '--range', '5000-5005', '../d/complete').stdout)
            os.pwrite(other, b'W', 5000); mapping[5005:5006] = b'D'
            mapping.close(); os.close(other)
            print(open('complete', 'rb').read()[5000:5006], os.stat('complete').st_size)
            """)
        #expect(done.text == "b'stored' 7 b'written'\nstored\nb'WtoreD' 100000\n", "\(done.errors)")
        #expect(try sandbox.run("verify", "d/complete").status == 0)
    }

    @Test("Bytes stored in a mapping before a lock are there after the unlock, and not in the kernel meanwhile")
    func late() throws {
        let done = try script(
            """
            file = open('complete', 'r+b')
            mapping = mapShared(file.fileno())
            def store():
                for place in range(0, 100000, 4096): mapping[place:place + 4] = b'%04d' % (place // 4096)
            comeLate(store)
            print(waited(lambda: resident(mapping) == 0), verb('lock', '--require-clean').returncode,
                  verb('queue').stdout.replace(os.path.realpath('..'), '…').strip())
            mapping.madvise(mmap.MADV_DOFORK)
            child = os.fork()
            if child == 0:
                mapping[0]
                os._exit(0)
            print(os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGBUS, attempt(lambda: os.fsync(file.fileno())))
            unlock()
            print([mapping[place:place + 4] for place in range(0, 100000, 4096)] == [b'%04d' % number for number in range(25)],
                  verb('queue').stdout, os.listdir(os.environ['PROTECTFS_KEYBAG'] + '/queue'))
            mapping[0:4] = b'more'
            mapping.close(); file.close()
            print(verb('cat', '--range', '0-3', '../d/complete').stdout, verb('verify', '../d/complete').returncode)
            """)
        #expect(
            done.text == """
                True 0 merge  …/d/complete
                True None
                True  []
                more 0

                """, "\(done.errors)")
    }

    @Test("It is in the file soon after the unlock though no program asks; without the server the queue sees to it")
    func withoutTheProgram() throws {
        let done = try script(
            """
            kept = open('complete', 'r+b')
            mapping = mapShared(kept.fileno())
            comeLate(lambda: mapping.__setitem__(slice(3, 7), b'late'))
            mapping.close(); kept.close()
            unlock()
            print(waited(lambda: verb('cat', '--range', '3-6', '../d/complete').stdout == 'late'))
            kept = open('complete', 'r+b')
            mapping = mapShared(kept.fileno())
            comeLate(lambda: mapping.__setitem__(slice(3, 7), b'LATE'))
            assert waited(lambda: resident(mapping) == 0)
            os.chdir('..')
            kill(server())
            unlock()
            # It runs in the background.
            print(waited(lambda: verb('cat', '--range', '3-6', 'd/complete').stdout == 'LATE'))
            print(waited(lambda: os.listdir(os.environ['PROTECTFS_KEYBAG'] + '/queue') == []))
            """)
        #expect(done.text == "True\nTrue\nTrue\n", "\(done.errors)")
    }

    @Test("A file that is deleted, and one that is renamed, have it too")
    func names() throws {
        let done = try script(
            """
            def store(name):
                file = open(name, 'r+b')
                mapping = mapShared(file.fileno())
                return mapping, file
            os.link('complete', 'twin'); os.unlink('twin')
            open('gone', 'w').write('x' * 5000); run('class', '../d/gone', 'complete')
            deleted, renamed = store('gone'), store('complete')
            os.unlink('gone'); os.rename('complete', 'sub/moved')
            def stores():
                deleted[0][1:5] = renamed[0][1:5] = b'late'
            comeLate(stores)
            unlock()
            print(deleted[0][1:5], renamed[0][1:5])
            for mapping, file in (deleted, renamed): mapping.close(); file.close()
            print(verb('cat', '--range', '1-4', '../d/sub/moved').stdout, os.listdir(os.environ['PROTECTFS_KEYBAG'] + '/queue'))
            """)
        #expect(done.text == "b'late' b'late'\nlate []\n", "\(done.errors)")
    }

    @Test("With locks at any moment no store is lost that came before one")
    func storm() throws {
        let done = try script(
            """
            import random
            random.seed(int(sys.argv[2]))
            files = {}
            for name in ('complete', 'first-unlock', 'sub/unless-open'):
                descriptor = os.open(name, os.O_RDWR)
                os.ftruncate(descriptor, 100000)
                files[name] = (descriptor, mapShared(descriptor), bytearray(os.pread(descriptor, 100000, 0)))
            wrong, statuses, late = [], set(), 0
            for turn in range(int(sys.argv[1])):
                # Else the kernel delivers most pages at once.
                isStopped = random.random() < 0.5
                for _ in range(random.randrange(30)):
                    descriptor, mapping, expected = random.choice(list(files.values()))
                    place, bytes_ = random.randrange(99000), random.randbytes(random.choice([1, 8, 900]))
                    expected[place:place + len(bytes_)] = bytes_
                    way = random.randrange(8)
                    if way < 5: mapping[place:place + len(bytes_)] = bytes_
                    elif way < 7: os.pwrite(descriptor, bytes_, place)
                    else:
                        mapping[place:place + len(bytes_)] = bytes_
                        mapping.flush() if random.random() < 0.5 else os.fsync(descriptor)
                if random.random() < 0.3: time.sleep(random.random() / 5)
                def store():
                    for _ in range(5):
                        descriptor, mapping, expected = random.choice(list(files.values()))
                        place = random.randrange(99000)
                        mapping[place:place + 4] = expected[place:place + 4] = b'late'
                if isStopped: comeLate(store)
                else: statuses.add(verb('lock', '--require-clean').returncode)
                late += verb('queue').stdout.count('merge')
                if random.random() < 0.3: statuses.add(verb('lock', '--require-clean').returncode)
                unlock()
                if random.random() < 0.3:
                    statuses.add(verb('lock', '--require-clean').returncode)
                    unlock()
                for name, (descriptor, mapping, expected) in files.items():
                    if random.random() < 0.5 and mapping[:] != expected: wrong.append((turn, name, 'mapping'))
                    if os.pread(descriptor, 100000, 0) != expected: wrong.append((turn, name, 'read'))
            for name, (descriptor, mapping, expected) in files.items():
                mapping.close(); os.close(descriptor)
                if subprocess.run([program, 'cat', '../d/' + name], capture_output=True).stdout != expected: wrong.append(name)
            print(wrong[:5], statuses - {0, 75}, late > 0, os.listdir(os.environ['PROTECTFS_KEYBAG'] + '/queue'))
            """, "\(Effort.count(10, 500))", "\(Effort.seed)")
        #expect(done.text == "[] set() True []\n", "seed \(Effort.seed): \(done.errors)")
    }

    @Test(
        "SQLite with a write-ahead log, which it maps, goes on through locks", arguments: ["first-unlock", "complete"])
    func sqlite(protectionClass: String) throws {
        let done = try script(
            """
            import sqlite3
            os.mkdir('db'); run('class', '../d/db', sys.argv[1])
            database = sqlite3.connect('db/x.db', isolation_level=None)
            print(database.execute('PRAGMA journal_mode = WAL').fetchone())
            database.execute('CREATE TABLE t (a)')
            for number in range(100):
                database.execute('INSERT INTO t VALUES (?)', (number,))
                # Whoever touches the mapping of a complete file while locked is ended by SIGBUS.
                if number % 20 == 0: run('lock', '--require-clean'); unlock()
            print(database.execute('SELECT count(*), sum(a) FROM t').fetchone())
            print(database.execute('PRAGMA integrity_check').fetchone())
            database.close()
            print(sorted(os.listdir('db')))
            """, protectionClass)
        #expect(done.text == "('wal',)\n(100, 4950)\n('ok',)\n['x.db']\n", "\(done.errors)")
    }

    @Test("Where the disk is full, pages that come late wait in memory, and go to the disk when there is room")
    func fullDisk() throws {
        guard geteuid() == 0 else { return print("skipped: only root can mount a small file system") }
        let done = try script(
            """
            queue = os.environ['PROTECTFS_KEYBAG'] + '/queue'
            os.makedirs(queue, mode=0o700, exist_ok=True)
            subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=64k,mode=700', 'tmpfs', queue], check=True)
            def fill(count):
                with open(queue + '/filler', 'wb', buffering=0) as file:
                    try:
                        for _ in range(count): file.write(bytes(4096))
                    except OSError: pass
            try:
                # Full from the beginning; then in the middle.
                for count in (20, 12):
                    fill(count)
                    file = open('complete', 'r+b')
                    mapping = mapShared(file.fileno())
                    def store():
                        for place in range(0, 100000, 4096): mapping[place:place + 6] = b'%06d' % (place + count)
                    comeLate(store)
                    print(waited(lambda: resident(mapping) == 0), verb('lock', '--require-clean').returncode,
                          attempt(lambda: os.fsync(file.fileno())))
                    os.unlink(queue + '/filler')
                    unlock()
                    print([mapping[place:place + 6] for place in range(0, 100000, 4096)]
                          == [b'%06d' % (place + count) for place in range(0, 100000, 4096)], os.listdir(queue))
                    mapping.close(); file.close()
                    print(verb('cat', '--range', '0-5', '../d/complete').stdout)
            finally:
                subprocess.run(['umount', '-l', queue])
            """)
        #expect(
            done.text == """
                True 0 ENOSPC
                True []
                000020
                True 0 ENOSPC
                True []
                000012

                """, "\(done.errors)")
    }

    @Test("A file that was made in the mount is found again under another name, by the queue too")
    func madeHere() throws {
        let done = try script(
            """
            file = os.open('new', os.O_RDWR | os.O_CREAT)
            os.write(file, b'y' * 5000)
            run('class', '../d/new', 'complete')
            mapping = mapShared(file)
            os.rename('new', 'sub/other')
            comeLate(lambda: mapping.__setitem__(slice(3, 7), b'late'))
            assert waited(lambda: resident(mapping) == 0)
            print(verb('queue').stdout.replace(os.path.realpath('..'), '…').strip())
            mapping.close(); os.close(file)
            os.chdir('..')
            kill(server())
            unlock()
            print(waited(lambda: verb('cat', '--range', '3-6', 'd/sub/other').stdout == 'late'))
            """)
        #expect(done.text == "merge  …/d/sub/other\nTrue\n", "\(done.errors)")
    }
}

/// Why no mapping can be stored into here; nil if it can.
let whyNoSharedMapping: String? = {
    if let whyNoMount { return whyNoMount }
    var system = utsname()
    uname(&system)
    let release = withUnsafeBytes(of: &system.release) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    let numbers = release.split(whereSeparator: { !$0.isNumber }).prefix(2).compactMap { Int($0) }
    return numbers.lexicographicallyPrecedes([6, 6]) ? "Linux \(release) makes no such mappings; 6.6 does" : nil
}()
