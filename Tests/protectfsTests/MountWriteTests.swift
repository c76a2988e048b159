import Foundation
import TestEffort
import Testing

/// What programs do to a mount that they may write to, and what plain files do.
@Suite("mount --read-write", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct MountWriteTests {
    private let bed: MountBed
    private var sandbox: CommandSandbox { bed.sandbox }

    init() throws {
        bed = try MountBed()
        try bed.mount("--read-write")
    }

    /// Runs a script in a directory of the mount and in a plain one: it must print the same, without an error.
    private func expectSame(_ script: String, sourceLocation: SourceLocation = #_sourceLocation) throws {
        let made = try sandbox.shell("mkdir -p point/work ordinary")
        #expect(made.status == 0, "\(made.errors)", sourceLocation: sourceLocation)
        let results = try ["point/work", "../ordinary"].map { place in
            try bed.script(Self.moving + script, place)
        }
        for result in results { #expect(result.status == 0, "\(result.errors)", sourceLocation: sourceLocation) }
        #expect(!results[0].text.isEmpty, sourceLocation: sourceLocation)
        #expect(results[0].text == results[1].text, "\(results[0].errors)", sourceLocation: sourceLocation)
    }

    /// Goes to the directory that the first argument names, from the mount on.
    private static let moving = """
        os.chdir(sys.argv[1] if sys.argv[1].startswith('..') else sys.argv[1].removeprefix('point/'))
        def contents(name):
            with open(name, 'rb') as file: return file.read()
        def store(name, data):
            with open(name, 'wb') as file: file.write(data)
        def renameat2(old, new, flags):
            if libc.renameat2(-100, old.encode(), -100, new.encode(), flags) != 0:
                raise OSError(ctypes.get_errno(), '')

        """

    @Test("Files are created, written, cut and continued as plain ones, in small and in large pieces")
    func bytes() throws {
        try expectSame(
            """
            store('a', b'')
            print(os.stat('a').st_size, contents('a'))
            store('a', b'hello')
            with open('a', 'ab') as file: print(file.write(b' world'))
            print(contents('a'), os.stat('a').st_size)
            descriptor = os.open('a', os.O_RDWR)
            print(os.pwrite(descriptor, b'J', 0), os.pread(descriptor, 99, 0), os.pread(descriptor, 9, 99))
            for size in [4, 9, 5000, 4095, 70000, 1, 0, 3]:
                os.ftruncate(descriptor, size)
                print(size, os.fstat(descriptor).st_size, hash(0) if size > 9 else os.pread(descriptor, 99, 0))
                if size > 9: assert os.pread(descriptor, 99999, 9).count(0) == size - 9
            os.pwrite(descriptor, b'far', 100000)
            os.fsync(descriptor)
            print(os.fstat(descriptor).st_size, os.pread(descriptor, 9, 99998), os.lseek(descriptor, 0, os.SEEK_END))
            os.close(descriptor)
            big = bytes(range(256)) * 12345
            store('big', big)
            print(contents('big') == big, os.stat('big').st_size)
            with open('big', 'r+b') as file:
                for place in range(0, len(big), 100003):
                    file.seek(place)
                    file.write(b'x' * 17)
                    big = big[:place] + b'x' * 17 + big[place + 17:]
            big = big[:3160320]
            os.truncate('big', len(big))
            print(contents('big') == big, attempt(lambda: os.truncate('big', -1)))
            store('big', b'short')
            print(contents('big'))
            print(attempt(lambda: os.open('big', os.O_CREAT | os.O_EXCL | os.O_WRONLY)), attempt(lambda: os.open('x/y', os.O_CREAT)))
            print(attempt(lambda: os.write(os.open('big', os.O_RDONLY), b'x')), attempt(lambda: os.open('.', os.O_WRONLY)))
            print(attempt(lambda: open('n' * 255, 'w').write('x')), attempt(lambda: open('n' * 256, 'w')))
            print(attempt(lambda: os.mknod('node')), attempt(lambda: os.mknod('node')), contents('node'))
            """)
    }

    @Test("All handles of a file see what was written, through both kinds of opening and after a removal")
    func handles() throws {
        try expectSame(
            """
            store('a', b'x' * 5000)
            reader, writer, other = os.open('a', os.O_RDONLY), os.open('a', os.O_WRONLY), os.open('a', os.O_RDWR | os.O_APPEND)
            print(os.pread(reader, 3, 0))
            os.pwrite(writer, b'new', 0)
            print(os.pread(reader, 3, 0), os.pread(other, 3, 0), contents('a')[:3], os.stat('a').st_size)
            os.write(other, b'end')
            os.pwrite(writer, b'END', 5003)
            os.write(other, b'.')
            print(os.pread(reader, 99, 5000), os.stat('a').st_size, os.fstat(reader).st_size)
            os.close(writer)
            print(os.pread(reader, 99, 5000), os.stat('a').st_size)
            os.unlink('a')
            print(os.fstat(other).st_nlink, os.fstat(other).st_size, attempt(lambda: os.stat('a')))
            os.ftruncate(other, 2)
            os.fchmod(other, 0o600)
            os.write(other, b'!')
            print(os.pread(reader, 99, 0), oct(os.fstat(reader).st_mode))
            store('a', b'another')
            print(os.pread(reader, 99, 0), contents('a'), os.fstat(reader).st_ino == os.stat('a').st_ino)
            os.fsync(reader)
            with open('/proc/self/fd/%d' % other, 'rb') as again: print(again.read())
            os.close(other)
            print(os.pread(reader, 99, 0))
            for number in range(300):
                with open('t', 'w+') as file:
                    os.unlink('t')
                    file.write(str(number))
                    file.flush()
                    assert os.pread(file.fileno(), 9, 0).decode() == str(number)
            print(os.listdir())
            """)
    }

    @Test("Directories, links and names are made, moved and removed as in a plain directory, with the same errors")
    func names() throws {
        try expectSame(
            """
            os.umask(0)
            os.mkdir('d', 0o711)
            os.makedirs('e/f/g')
            print(oct(os.stat('d').st_mode), attempt(lambda: os.mkdir('d')), attempt(lambda: os.rmdir('e')), attempt(lambda: os.rmdir('x')))
            store('d/a', b'a')
            store('b', b'b')
            print(attempt(lambda: os.rmdir('b')), attempt(lambda: os.unlink('d')) in ('EISDIR', 'EPERM'), attempt(lambda: os.unlink('x')))
            os.rename('d/a', 'e/f/a')
            os.rename('b', 'e/f/a')
            print(contents('e/f/a'), os.listdir('d'), sorted(os.listdir('.')))
            descriptor = os.open('e/f', os.O_RDONLY)
            os.rename('e/f', 'd/moved')
            store('d/moved/late', b'late')
            print(sorted(os.listdir(descriptor)), os.listdir('e'), contents('d/moved/a'), os.listdir('d/moved/g'))
            os.fsync(descriptor)
            print(attempt(lambda: os.rename('d', 'd/moved/x')), attempt(lambda: os.rename('d/moved/a', 'd')), attempt(lambda: os.rename('e', 'd/moved/a')))
            print(attempt(lambda: os.rename('e', 'd')), attempt(lambda: os.rename('x', 'y')))
            os.rename('e', 'd/moved/g')
            store('1', b'one'); store('2', b'two')
            print(attempt(lambda: renameat2('1', '2', 1)), contents('2'), attempt(lambda: renameat2('1', '3', 1)), contents('3'))
            os.link('3', 'd/hard')
            print(os.stat('3').st_nlink, os.stat('3').st_ino == os.stat('d/hard').st_ino, attempt(lambda: os.link('3', 'd/hard')), attempt(lambda: os.link('d', 'x')))
            with open('d/hard', 'ab') as file: file.write(b' more')
            print(contents('3'))
            os.rename('3', 'd/hard')
            print(os.path.exists('3'), os.stat('d/hard').st_nlink)
            os.unlink('3')
            print(contents('d/hard'), os.stat('d/hard').st_nlink)
            os.symlink('d/hard', 's'); os.symlink('nowhere', 'dangling')
            print(contents('s'), os.readlink('s'), attempt(lambda: open('dangling')), attempt(lambda: os.symlink('x', 's')), os.lstat('s').st_size)
            os.link('s', 's2', follow_symlinks=False)
            print(os.readlink('s2'), os.lstat('s').st_nlink)
            os.unlink('s')
            os.mkfifo('fifo', 0o640)
            print(oct(os.stat('fifo').st_mode), contents('s2'))
            os.chmod('d', 0o2755)
            os.mkdir('d/in')
            print(oct(os.stat('d/in').st_mode))
            held = os.open('2', os.O_RDWR)
            store('1', b'over'); os.rename('1', '2')
            print(contents('2'), os.pwrite(held, b'T', 0), os.pread(held, 9, 0), os.fstat(held).st_nlink)
            """)
    }

    @Test("Modes, owners and times are kept; a commit is not seen in the time of a file")
    func attributes() throws {
        try expectSame(
            """
            os.umask(0o027)
            store('a', b'text')
            print(oct(os.stat('a').st_mode), os.stat('a').st_uid == os.getuid())
            os.close(os.open('m', os.O_CREAT | os.O_WRONLY, 0o444))
            print(oct(os.stat('m').st_mode))
            os.chmod('a', 0o4711)
            print(oct(os.stat('a').st_mode))
            os.utime('a', ns=(1_000_000_007, 2_000_000_009))
            print(os.stat('a').st_atime_ns, os.stat('a').st_mtime_ns)
            with open('a', 'r+b') as file:
                file.write(b'T')
                file.flush()
                os.utime(file.fileno(), ns=(3_000_000_001, 4_000_000_003))
                print(os.fstat(file.fileno()).st_mtime_ns)
            time.sleep(1.2)
            print(os.stat('a').st_mtime_ns, contents('a'))
            before = time.time() - 0.1
            with open('a', 'r+b') as file:
                file.write(b'U')
                file.flush()
                written = os.fstat(file.fileno()).st_mtime
                time.sleep(0.3)
            time.sleep(1.2)
            print(before < written, abs(os.stat('a').st_mtime - written) < 0.2)
            os.utime('a', (9, 9))
            os.truncate('a', 2)
            print(os.stat('a').st_mtime > before, contents('a'))
            os.symlink('a', 'l')
            os.utime('l', (5, 6), follow_symlinks=False)
            print(os.lstat('l').st_mtime, os.stat('a').st_mtime > before)
            os.chmod('.', 0o750); os.utime('.', (7, 8))
            print(oct(os.stat('.').st_mode), os.stat('.').st_mtime)
            print(os.getuid() != 0 or (os.chown('a', 1234, 4321), os.stat('a').st_uid, os.stat('a').st_gid, os.chown('a', 0, 0)))
            """)
    }

    @Test("Names are exchanged in one step, of files, directories and links, open ones too, with the same errors")
    func exchange() throws {
        try expectSame(
            """
            store('a', b'one'); store('b', b'two'); os.mkdir('d'); store('d/in', b'three'); os.symlink('a', 'l')
            held = os.open('a', os.O_RDWR)
            os.pwrite(held, b'O', 0)
            renameat2('a', 'd/in', 2)
            print(contents('a'), contents('d/in'), os.pread(held, 9, 0), os.pwrite(held, b'o', 0), contents('d/in'))
            renameat2('d', 'b', 2)
            print(contents('d'), os.listdir('b'), contents('b/in'))
            renameat2('l', 'd', 2)
            print(os.readlink('d'), contents('l'), contents('d'))
            print(attempt(lambda: renameat2('a', 'nothing', 2)), attempt(lambda: renameat2('b', 'b/in', 2)), attempt(lambda: renameat2('a', 'l', 3)))
            renameat2('a', 'a', 2)
            print(sorted(os.listdir()), contents('a'))
            """)
    }

    @Test("Extended attributes are set, replaced and removed as on plain files and directories, with the same errors")
    func attributesOfUsers() throws {
        let can = try sandbox.shell("touch ordinary-attribute && setfattr -n user.a -v b ordinary-attribute")
        guard can.status == 0 else { return print("skipped: the file system has no attributes: \(can.errors)") }
        try expectSame(
            """
            store('f', b'text'); os.mkdir('d'); os.symlink('f', 'l')
            for name in ['f', 'd']:
                os.setxattr(name, 'user.a', b'one')
                os.setxattr(name, 'user.b', b'')
                os.setxattr(name, 'user.long', b'v' * 2000)
                print(sorted(os.listxattr(name)), os.getxattr(name, 'user.a'), os.getxattr(name, 'user.b'), len(os.getxattr(name, 'user.long')))
                print(attempt(lambda: os.setxattr(name, 'user.a', b'x', os.XATTR_CREATE)), attempt(lambda: os.setxattr(name, 'user.c', b'x', os.XATTR_REPLACE)))
                os.setxattr(name, 'user.a', b'two', os.XATTR_REPLACE)
                os.removexattr(name, 'user.b')
                print(os.getxattr(name, 'user.a'), attempt(lambda: os.removexattr(name, 'user.b')), sorted(os.listxattr(name)))
            print(attempt(lambda: os.setxattr('l', 'user.a', b'x', follow_symlinks=False)), os.getxattr('l', 'user.a'))
            held = os.open('f', os.O_RDWR)
            os.unlink('f')
            os.setxattr(held, 'user.a', b'three')
            print(os.getxattr(held, 'user.a'))
            """)
    }

    @Test("An operation that is not offered has the errno of a file system without it")
    func notOffered() throws {
        let done = try bed.script(
            """
            import mmap
            with open('x', 'w+') as file:
                file.write('text'); file.flush()
                print(libc.fallocate(file.fileno(), 0, ctypes.c_long(0), ctypes.c_long(99)), errno.errorcode[ctypes.get_errno()])
                private = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE)
                print(bytes(private))
            print(attempt(lambda: os.open('.', os.O_TMPFILE | os.O_RDWR)), attempt(lambda: os.setxattr('x', 'trusted.a', b'b')))
            result = libc.renameat2(-100, b'x', -100, b'plain', 4)
            print(result, errno.errorcode[ctypes.get_errno()])
            for name in ['.x.protectfs-unfinished-1', '.x.protectfs-download-1']:
                print(attempt(lambda: open(name, 'w')), attempt(lambda: os.rename('x', name)), attempt(lambda: os.unlink(name)))
            print(attempt(lambda: os.mknod('device', 0o20600, os.makedev(1, 3))))
            """)
        #expect(
            done.text
                == """
                -1 ENOTSUP
                b'text'
                ENOTSUP ENOTSUP
                -1 EINVAL
                EPERM EPERM ENOENT
                EPERM EPERM ENOENT
                EPERM

                """, "\(done.errors)")
    }

    @Test("Random reads, writes, cuts, mappings and openings by several handles, beside a plain file and locks")
    func random() throws {
        let done = try bed.script(
            """
            import random
            chance = random.Random(int(sys.argv[1]))
            names, handles, isLocked = ['first-unlock', '../ordinary'], [], False
            for name in names: open(name, 'wb').close()
            def reopened(flags): return [os.open(name, flags) for name in names]
            def mapping(descriptor):
                size = os.fstat(descriptor).st_size
                if size == 0: return
                with mmap.mmap(descriptor, 0) as mapping:
                    end = min(place + count, size)
                    if place < end: mapping[place:end] = data[:end - place]
                    return bytes(mapping)
            def same(call):
                one, other = [attempt(lambda: call(descriptor)) for descriptor in chance.choice(handles)]
                assert one == other, (step, one, other)
            for step in range(int(sys.argv[2])):
                if len(handles) < 2 or len(handles) < 6 and chance.random() < 0.1:
                    handles.append(reopened(os.O_RDWR | chance.choice([0, 0, os.O_APPEND, os.O_SYNC])))
                    handles.append(reopened(os.O_RDONLY))
                elif chance.random() < 0.1:
                    for descriptor in handles.pop(chance.randrange(len(handles))): os.close(descriptor)
                place, count = chance.randrange(60000), chance.choice([1, 9, 4096, chance.randrange(20000)])
                data = chance.randbytes(count)
                what = chance.random()
                if what < 0.4: same(lambda descriptor: os.pread(descriptor, count, place))
                elif what < 0.75: same(lambda descriptor: os.pwrite(descriptor, data, place))
                # Linux 6.6 makes such mappings.
                elif what < 0.8 and int(sys.argv[3]): same(mapping)
                elif what < 0.85: same(lambda descriptor: os.ftruncate(descriptor, place))
                elif what < 0.9: same(lambda descriptor: os.fsync(descriptor))
                elif what < 0.95: same(lambda descriptor: os.fstat(descriptor).st_size)
                elif what < 0.96:
                    run('lock', '--require-clean') if not isLocked else unlock()
                    isLocked = not isLocked
                elif what < 0.97:
                    for name in names: os.truncate(name, place)
                else: assert len({os.stat(name).st_size for name in names}) == 1
            for pair in handles:
                for descriptor in pair: os.close(descriptor)
            print(*[subprocess.run(words, capture_output=True).stdout == open(names[1], 'rb').read()
                    for words in [['cat', names[0]], [program, 'cat', '../d/first-unlock']]])
            """, "\(Effort.seed)", "\(Effort.count(600, 20_000))", whyNoSharedMapping == nil ? "1" : "0")
        #expect(done.text == "True True\n", "seed \(Effort.seed): \(done.errors)")
    }

    @Test("A read-only mount writes nothing")
    func readOnly() throws {
        #expect(try sandbox.run("unmount", "point").status == 0)
        try bed.mount()
        let done = try bed.script(
            """
            print(attempt(lambda: open('new', 'w')), attempt(lambda: os.open('plain', os.O_RDWR)), attempt(lambda: os.chmod('plain', 0)))
            print(attempt(lambda: os.truncate('plain', 0)), attempt(lambda: os.rename('plain', 'x')), attempt(lambda: os.link('plain', 'x')))
            """)
        #expect(done.text == "EROFS EROFS EROFS\nEROFS EROFS EROFS\n", "\(done.errors)")
    }

    @Test("A write beyond what the file system can hold is EFBIG, and costs nothing that was written before")
    func tooFar() throws {
        let done = try bed.script(
            """
            file = os.open('f', os.O_RDWR | os.O_CREAT)
            print(os.write(file, b'HELLO'), [attempt(lambda: os.pwrite(file, b'x', 1 << power)) for power in (56, 59)])
            print(attempt(lambda: os.fsync(file)), os.pread(file, 9, 0), os.fstat(file).st_size)
            os.close(file)
            print(verb('cat', '../d/f').stdout)
            """)
        let isSmall = done.text.contains("[None")
        if isSmall { return print("skipped: this file system holds files of 2^56 bytes") }
        #expect(done.text == "5 ['EFBIG', 'EFBIG']\nNone b'HELLO' 5\nHELLO\n", "\(done.errors)")
    }
}
