import Foundation
import TestEffort
import Testing

/// A server was killed, and another one goes on in its place.
@Suite("mount: another server takes over", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct MountTakeoverTests {
    private let bed: MountBed
    init() throws { bed = try MountBed() }

    @Test("Programs keep what they have open, and where they are; what was cached is dropped, and a lock is true")
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

    @Test("What was written and not committed is lost, and whoever has written it is told; the file can be opened again")
    func uncommitted() throws {
        try bed.mount("--read-write")
        let done = try bed.script(
            """
            writer, reader = os.open('point/complete', os.O_RDWR), os.open('point/complete', os.O_RDONLY)
            other = os.open('point/none', os.O_RDWR)
            dead = server()
            os.kill(dead, signal.SIGSTOP); os.kill(dead, signal.SIGCONT)
            os.pwrite(other, b'kept', 0); os.fsync(other)
            os.pwrite(writer, b'lost', 0)
            end(dead)
            successor(dead)
            print([attempt(call) for call in (lambda: os.pwrite(writer, b'more', 10), lambda: os.pread(writer, 4, 0),
                lambda: os.fsync(writer), lambda: os.ftruncate(writer, 1), lambda: os.close(writer))])
            print(os.pread(reader, 4, 0), os.pwrite(other, b'K', 0), os.fsync(other), os.pread(other, 9, 0))
            with open('point/complete', 'r+b') as again: again.write(b'new')
            print(open('point/complete', 'rb').read(4))
            """, isInside: false)
        #expect(
            done.text == """
                ['EIO', 'EIO', 'EIO', 'EIO', 'EIO']
                b'\\x00\\x07\\x0e\\x15' 1 None b'Kept'
                b'new\\x15'

                """, "\(done.errors)")
    }

    @Test("While programs read and write, servers are killed: what fsync has acknowledged is there, and a lock is true each time")
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
                            os.fsync(file.fileno())
                            acknowledged = count
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
            """, "\(Effort.count(2, 100))", isInside: false)
        #expect(done.text == "[]\n", "\(done.errors)")
    }
}
