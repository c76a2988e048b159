import Foundation
import TestEffort
import Testing

/// A server was killed, and another one goes on in its place.
@Suite("mount: another server takes over", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct MountTakeoverTests {
    private let bed: MountBed
    init() throws { bed = try MountBed() }

    @Test("Programs keep open files and their place; cached pages are dropped, and a lock is true")
    func goesOn() throws {
        try bed.mount("--read-write")
        let done = try bed.script(
            """
            dead = server()
            reader, writer = os.open('point/complete', os.O_RDONLY), os.open('point/none', os.O_RDWR)
            mapping, names = mapped('point/complete'), os.scandir('point')
            first = next(names).name
            os.mkdir('point/new'); os.rename('point/sub', 'point/new/moved')
            place = os.open('point/new/moved', os.O_PATH)
            print(resident(mapping) > 0)
            end(dead)
            successor(dead)
            print(resident(mapping), os.pread(reader, 2, 0), mapping[1], resident(mapping) > 0)
            print(os.pwrite(writer, b'changed', 0), os.fsync(writer), open('point/none').read())
            print(os.fstat(reader).st_size, os.ftruncate(writer, 3), os.fstat(writer).st_size)
            print(sorted([first] + [entry.name for entry in names]))
            print(os.listdir('/proc/self/fd/%d' % place), open('point/new/moved/unless-open').read())
            run('lock', '--require-clean')
            print(resident(mapping), attempt(lambda: os.pread(reader, 2, 0)), attempt(lambda: open('point/complete')))
            print(os.pread(writer, 9, 0))
            unlock()
            print(os.pread(reader, 2, 0), mapping[1])
            mapping.close(); os.close(reader); os.close(writer); os.close(place)
            last = server()
            run('unmount', 'point')
            print(waited(lambda: gone(last)), os.listdir(notes))
            """, isInside: false)
        #expect(
            done.text == """
                True
                0 b'\\x00\\x07' 7 True
                7 None changed
                100000 None 3
                ['complete', 'first-unlock', 'link', 'none', 'plain', 'sub']
                ['unless-open'] b

                0 ENOKEY ENOKEY
                b'cha'
                b'\\x00\\x07' 7
                True []

                """, "\(done.errors)")
    }

    @Test("Acknowledged writes are there, committed or not, and direct readers find them soon")
    func uncommitted() throws {
        try bed.mount("--read-write")
        let done = try bed.script(
            """
            names = ['complete', 'none', 'first-unlock', 'new', 'readonly']
            files = [os.open('point/' + name, os.O_RDWR | os.O_CREAT, 0o400) for name in names]
            reader, dead = os.open('point/complete', os.O_RDONLY), server()
            os.fchmod(files[1], 0o444)
            for file in files:
                os.pwrite(file, b'kept', 1)
                os.pwrite(file, b'far', 150000)
                os.ftruncate(file, 150002)
                os.pwrite(file, b'K', 1)
            os.pwrite(files[0], b'n' * 300000, 200000)
            end(dead)
            print([(os.pread(file, 4, 1), os.pread(file, 9, 149999)) for file in files[1:]])
            print(os.stat('point/complete').st_size, os.pread(reader, 4, 1), os.pread(reader, 3, 499998))
            print([attempt(lambda: os.pwrite(file, b'on', 5)) for file in files], [attempt(lambda: os.fsync(file)) for file in files])
            print([oct(os.fstat(file).st_mode & 0o777) for file in files])
            for file in files + [reader]: os.close(file)
            run('unmount', 'point')
            for name in names:
                print(subprocess.run([program, 'cat', 'd/' + name], capture_output=True).stdout[1:7])
            """, isInside: false)
        #expect(
            done.text == """
                [(b'Kept', b'\\x00fa'), (b'Kept', b'\\x00fa'), (b'Kept', b'\\x00fa'), (b'Kept', b'\\x00fa')]
                500000 b'Kept' b'nn'
                [2, 2, 2, 2, 2] [None, None, None, None, None]
                ['0o644', '0o444', '0o644', '0o400', '0o400']
                b'Kepton'
                b'Kepton'
                b'Kepton'
                b'Kepton'
                b'Kepton'

                """, "\(done.errors)")
    }

    @Test("A write to a file that was changed elsewhere meanwhile is lost, and its writer is told")
    func lost() throws {
        try bed.mount("--read-write")
        let done = try bed.script(
            """
            change = later('printf other | "$PROTECTFS" write d/complete; printf more | "$PROTECTFS" write --append d/none')
            second = os.open('point/none', os.O_RDWR)
            writer, reader = os.open('point/complete', os.O_RDWR), os.open('point/complete', os.O_RDONLY)
            dead, keeper = server(), guardian(server())
            stop(keeper)
            os.pwrite(writer, b'lost', 0)
            os.pwrite(second, b'lost', 0)
            end(dead)
            print(change())
            os.kill(keeper, signal.SIGCONT)
            successor(dead)
            print([attempt(call) for call in (lambda: os.pwrite(writer, b'more', 10), lambda: os.pread(writer, 4, 0),
                lambda: os.fsync(writer), lambda: os.ftruncate(writer, 1), lambda: os.close(writer))])
            print([attempt(call) for call in (lambda: os.pwrite(second, b'more', 10), lambda: os.pread(second, 4, 0),
                lambda: os.fsync(second), lambda: os.ftruncate(second, 1), lambda: os.close(second))], open('point/none').read())
            print(attempt(lambda: os.pread(reader, 9, 0)), open('point/complete').read())
            with open('point/complete', 'r+b') as again: again.write(b'new')
            print(open('point/complete').read())
            """, isInside: false)
        #expect(
            done.text == """
                0
                ['ESTALE', 'ESTALE', 'ESTALE', 'ESTALE', 'ESTALE']
                ['EIO', 'EIO', 'EIO', 'EIO', 'EIO'] d
                more
                ESTALE other
                newer

                """, "\(done.errors)")
    }

    @Test("A file that was removed since is not another one that was made under its name")
    func removed() throws {
        try bed.mount("--read-write")
        let done = try bed.script(
            """
            names, dead = ['plain', 'none', 'early'], server()
            with open('point/early', 'w') as file: file.write('early')
            writers = [os.open('point/' + name, os.O_RDWR) for name in names]
            os.unlink('point/early')
            end(dead)
            successor(dead)
            for name in names:
                if name != 'early': os.unlink('point/' + name)
                with open('point/' + name, 'w') as file: file.write('new')
            print([attempt(lambda: os.pwrite(writer, b'old', 0)) for writer in writers])
            print([open('point/' + name).read() for name in names])
            """, isInside: false)
        #expect(done.text == "[3, 3, 'ESTALE']\n['new', 'new', 'new']\n", "\(done.errors)")
    }

    @Test("A name whose file was removed before keeps its class, also in a directory that was renamed")
    func remembered() throws {
        try bed.mount("--read-write")
        let done = try bed.script(
            """
            os.mkdir('point/dir'); names = ['one', 'two', 'dir/three', 'dir/four']
            for name in names:
                with open('point/' + name, 'w') as file: file.write(name)
                run('class', 'd/' + name, 'complete')
            os.unlink('point/one'); os.rename('point/two', 'point/two.bak'); os.unlink('point/dir/three'); os.unlink('point/dir/four')
            os.rename('point/dir', 'point/other')
            dead = server()
            end(dead)
            successor(dead)
            os.mkdir('point/dir')
            for name in names + ['other/three', 'never']:
                with open('point/' + name, 'w') as file: file.write('new')
                print(name, os.getxattr('point/' + name, 'user.protectfs.class').decode())
            """, isInside: false)
        #expect(
            done.text == """
                one complete
                two complete
                dir/three complete
                dir/four complete
                other/three complete
                never first-unlock

                """, "\(done.errors)")
    }

    @Test("Writes to a locked file that a killed server leaves wait for the unlock")
    func locked() throws {
        try bed.mount("--read-write")
        let done = try bed.script(
            """
            lock = later('"$PROTECTFS" lock --require-clean')
            writer, dead, keeper = os.open('point/sub/unless-open', os.O_RDWR), server(), guardian(server())
            stop(keeper)
            os.pwrite(writer, b'kept', 0)
            end(dead)
            print(lock())
            os.kill(keeper, signal.SIGCONT)
            successor(dead)
            run('lock', '--require-clean')
            print([attempt(call) for call in (lambda: os.pread(writer, 4, 0), lambda: os.pwrite(writer, b'x', 9),
                lambda: os.fsync(writer), lambda: os.rename('point/sub/unless-open', 'point/none'))])
            unlock()
            print(os.pread(writer, 4, 0), os.fsync(writer), os.close(writer))
            run('unmount', 'point')
            print(subprocess.run([program, 'cat', 'd/sub/unless-open'], capture_output=True).stdout)
            """, isInside: false)
        #expect(
            done.text == """
                75
                ['ENOKEY', 'ENOKEY', 'ENOKEY', 'ENOKEY']
                b'kept' None None
                b'kept'

                """, "\(done.errors)")
    }

    @Test("Servers are killed while programs write: acknowledged writes are there, and each lock is true")
    func underLoad() throws {
        try bed.mount("--read-write")
        let done = try bed.script(
            """
            over, failures, rounds = threading.Event(), [], int(sys.argv[1])
            def works(number):
                name, count, acknowledged = 'point/work%d' % number, 0, -1
                while not over.is_set():
                    count += 1
                    try:
                        with open(name, 'r+b' if os.path.exists(name) else 'xb', buffering=0) as file:
                            os.pwrite(file.fileno(), b'%08d' % count, 0)
                            os.pwrite(file.fileno(), b'%08d' % count, 70000 * number)
                            acknowledged = count
                            if count % 3 == 0: os.fsync(file.fileno())
                    except OSError as error:
                        if error.errno not in (errno.EIO, errno.ENOKEY, errno.ESTALE): failures.append(error)
                    try:
                        with open(name, 'rb') as file:
                            for place in (0, 70000 * number):
                                file.seek(place)
                                read = int(file.read(8) or -1)
                                if not acknowledged <= read <= count: failures.append((number, place, acknowledged, read, count))
                    except OSError as error:
                        if error.errno not in (errno.EIO, errno.ENOKEY, errno.ENOENT): failures.append(error)
            workers = [threading.Thread(target=works, args=[number], daemon=True) for number in range(4)]
            for worker in workers: worker.start()
            mapping = mapped('point/complete')
            for round in range(rounds):
                time.sleep(1.1)
                mapping[0]
                dead = server()
                end(dead)
                successor(dead)
                run('lock', '--require-clean')
                if resident(mapping): failures.append('resident')
                unlock()
            over.set()
            for worker in workers: worker.join()
            print(failures)
            """, "\(Effort.count(2, 500))", isInside: false)
        #expect(done.text == "[]\n", "\(done.errors)")
    }
}
