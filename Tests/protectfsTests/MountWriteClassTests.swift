import Foundation
import Testing

/// What becomes of classes, and of files that have none, on a mount that programs may write to.
@Suite("mount --read-write: classes", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct MountWriteClassTests {
    private let bed: MountBed

    init() throws {
        bed = try MountBed()
        try bed.mount("--read-write")
    }

    @Test("New files have the class of their directory, and protectfs reads at once what was written")
    func protected() throws {
        let done = try bed.script(
            """
            os.makedirs('a/b')
            run('class', '../d/a', 'complete')
            for name in ['a/one', 'a/b/two', 'three']:
                with open(name, 'w') as file: file.write(name * 1000)
                print(os.getxattr(name, 'user.protectfs.class').decode(), verb('cat', '../d/' + name).stdout == name * 1000)
                with open('../d/' + name, 'rb') as file: assert name.encode() * 2 not in file.read()
            with open('../d/a/one', 'rb') as file: size = len(file.read())
            with open('a/one', 'a') as file:
                file.write('more')
                file.flush()
                os.fsync(file.fileno())
                print(verb('cat', '../d/a/one').stdout[-4:], os.path.getsize('a/one'))
            print(verb('verify', '--recursive', '../d/a', '../d/three').returncode)
            subprocess.run([program, 'write', '../d/three'], input=b'from outside', check=True)
            time.sleep(1.1)
            print(open('three').read())
            """)
        #expect(
            done.text == """
                complete True
                complete True
                first-unlock True
                more 5004
                0
                from outside

                """, "\(done.errors)")
    }

    @Test("setfattr changes a class as the verb does: to a weaker one only if asked to, and while locked not at all")
    func attribute() throws {
        let done = try bed.script(
            """
            kind = 'user.protectfs.class'
            def named(name): return attempt(lambda: os.getxattr(name, kind).decode())
            def give(name, value, flags=0): return attempt(lambda: os.setxattr(name, kind, value, flags))
            with open('f', 'w') as file:
                file.write('text')
                print(give('f', b'complete'), named('f'), verb('class', '../d/f').stdout)
                print(give('f', b'none'), give('f', b'weaker:first-unlock'), named('f'), give('f', b'NSFileProtectionComplete'), named('f'))
            print(open('f').read(), verb('verify', '../d/f').returncode)
            print(give('f', b'strong'), give('f', b''), give('f', b'complete', os.XATTR_CREATE), give('f', b'complete', os.XATTR_REPLACE))
            print(attempt(lambda: os.removexattr('f', kind)), named('f'), os.listxattr('f'))
            print(named('plain'), give('plain', b'complete'), attempt(lambda: os.removexattr('plain', kind)), give('plain', b'none', os.XATTR_REPLACE))
            os.mkdir('dir')
            print(give('dir', b'none'), give('dir', b'complete'), named('dir'), give('dir', b'first-unlock'), os.listxattr('dir'))
            with open('dir/new', 'w') as file: file.write('x')
            print(named('dir/new'), give('dir', b'weaker:unless-open'), named('dir'), attempt(lambda: os.removexattr('dir', kind)), named('dir'))
            run('lock', '--require-clean')
            print(give('first-unlock', b'complete'), give('f', b'complete'), named('f'))
            unlock()
            print(give('first-unlock', b'complete'), named('first-unlock'))
            """)
        #expect(
            done.text == """
                None complete complete

                EPERM None first-unlock None complete
                text 0
                EINVAL EINVAL EEXIST None
                EPERM complete []
                ENODATA ENOTSUP ENODATA ENODATA
                EPERM None complete EPERM []
                complete None unless-open None ENODATA
                ENOKEY None complete
                None complete

                """, "\(done.errors)")
    }

    @Test("Files that exchange their names both get the stronger class; while locked those of different classes stay")
    func exchanged() throws {
        let done = try bed.script(
            """
            def named(name): return os.getxattr(name, 'user.protectfs.class').decode()
            def exchange(one, two):
                if libc.renameat2(-100, one.encode(), -100, two.encode(), 2) != 0: raise OSError(ctypes.get_errno(), '')
            for name in ['w', 'v']:
                with open(name, 'w') as file: file.write(name)
            exchange('w', 'v')
            print(named('w'), open('w').read())
            run('lock', '--require-clean')
            print(attempt(lambda: exchange('w', 'complete')), named('w'), open('w').read(), attempt(lambda: exchange('w', 'v')))
            unlock()
            exchange('w', 'complete')
            print(named('w'), named('complete'), open('complete').read())
            exchange('v', 'plain')
            print(named('plain'), open('v').read(), verb('verify', '../d/plain').returncode)
            """)
        #expect(
            done.text == """
                first-unlock v
                ENOKEY first-unlock v None
                complete complete w
                first-unlock plain
                 0

                """, "\(done.errors)")
    }

    @Test("A file whose head only claims its class does not take the name of one that has it")
    func claimed() throws {
        let done = try bed.script(
            """
            import hashlib
            with open('new', 'w') as file: file.write('new')
            with open('../d/new', 'r+b') as file:
                for start in [0, 4096]:
                    file.seek(start)
                    head = bytearray(file.read(4096))
                    if len(head) < 4096 or not any(head): continue
                    head[72] = open('../d/complete', 'rb').read(73)[72]
                    head[4064:] = hashlib.sha256(head[:4064]).digest()
                    file.seek(start)
                    file.write(head)
            print(verb('class', '../d/new').stdout, attempt(lambda: os.rename('new', 'complete')), os.path.getsize('complete'))
            """)
        #expect(done.text == "complete\n ENOKEY 100000\n", "\(done.errors)")
    }

    @Test("A name keeps the class of the protected file that lost it, whatever has it in between")
    func inBetween() throws {
        let done = try bed.script(
            """
            def exchange(one, two):
                if libc.renameat2(-100, one.encode(), -100, two.encode(), 2) != 0: raise OSError(ctypes.get_errno(), '')
            def plain():
                with open('../d/unprotected', 'w') as file: file.write('plain')
                time.sleep(1.1)
            def over(name): os.symlink('somewhere', 'l'); os.rename('l', name)
            def fifo(name): os.mkfifo('p'); os.rename('p', name)
            def unprotected(name): plain(); os.rename('unprotected', name)
            def directory(name): os.mkdir('e'); exchange(name, 'e'); os.rmdir(name)
            def link(name): os.symlink('somewhere', 'l'); exchange('l', name)
            def exchanged(name): plain(); exchange(name, 'unprotected')
            for number, lose in enumerate([over, fifo, unprotected, directory, link, exchanged]):
                name = 'lost-%d' % number
                with open(name, 'w') as file: file.write('secret')
                run('class', '../d/' + name, 'complete')
                lose(name)
                if os.path.lexists(name): os.remove(name)
                with open(name, 'w') as file: file.write('new')
                print(lose.__name__, os.getxattr(name, 'user.protectfs.class').decode())
            """)
        #expect(
            done.text == """
                over complete
                fifo complete
                unprotected complete
                directory complete
                link complete
                exchanged complete

                """, "\(done.errors)")
    }

    @Test("A file that takes the place of another gets its class if that is stronger, also by sed -i and mv")
    func replaced() throws {
        let done = try bed.script(
            """
            def named(name): return os.getxattr(name, 'user.protectfs.class').decode()
            with open('new', 'w') as file: file.write('new')
            os.rename('new', 'complete')
            print(named('complete'), open('complete').read(), verb('cat', '../d/complete').stdout)
            subprocess.run(['sed', '-i', 's/new/newer/', 'complete'], check=True)
            print(named('complete'), open('complete').read())
            with open('tmp', 'w') as file:
                file.write('open')
                file.flush()
                os.rename('tmp', 'complete')
                file.write(' still')
            print(named('complete'), open('complete').read())
            run('class', '../d/sub', 'complete')
            with open('sub/strong', 'w') as file: file.write('strong')
            os.rename('sub/strong', 'none')
            print(named('none'), open('none').read())
            with open('weak', 'w') as file: file.write('weak')
            run('lock', '--require-clean')
            print(attempt(lambda: os.rename('weak', 'complete')), open('weak').read())
            unlock()
            os.rename('weak', 'complete')
            print(named('complete'), open('complete').read())
            """)
        #expect(
            done.text == """
                complete new new
                complete newer
                complete open still
                complete strong
                ENOKEY weak
                complete weak

                """, "\(done.errors)")
    }

    @Test("A file that is removed or renamed, and made again, keeps its class: so save vim, tar and mv")
    func madeAgain() throws {
        let done = try bed.script(
            """
            def named(name): return os.getxattr(name, 'user.protectfs.class').decode()
            def make(name):
                with open(name, 'w') as file: file.write('new')
            os.rename('complete', 'complete~')
            make('complete')
            os.unlink('complete~')
            print(named('complete'), verb('cat', '../d/complete').stdout)
            os.unlink('sub/unless-open')
            make('sub/unless-open')
            print(named('sub/unless-open'))
            make('other')
            print(named('other'))
            os.unlink('complete')
            run('lock', '--require-clean')
            print(attempt(lambda: make('complete')), os.path.exists('complete'))
            unlock()
            make('complete')
            print(named('complete'))
            """)
        #expect(
            done.text == """
                complete new
                unless-open
                first-unlock
                ENOKEY False
                complete

                """, "\(done.errors)")
    }

    @Test("A file that takes the place of one that was altered or damaged is complete", arguments: [0, 8, 100, 300])
    func altered(offset: Int) throws {
        let done = try bed.script(
            """
            for slot in [0, 4096]:
                with open('../d/complete', 'r+b') as file:
                    file.seek(slot + \(offset))
                    byte = file.read(1)
                    file.seek(slot + \(offset))
                    file.write(bytes([byte[0] ^ 1]))
            with open('new', 'w') as file: file.write('new')
            os.rename('new', 'complete')
            print(os.getxattr('complete', 'user.protectfs.class').decode(), open('complete').read())
            """)
        #expect(done.text == "complete new\n", "\(done.errors)")
    }

    @Test("Files that are not protected are written to as they are, and stay that")
    func plaintext() throws {
        let done = try bed.script(
            """
            with open('plain', 'a') as file: file.write('more\\n')
            with open('plain', 'r+') as file: file.write('P')
            print(open('../d/plain').read(), end='')
            os.truncate('plain', 3)
            print(open('plain').read(), os.path.getsize('plain'))
            with open('plain', 'w') as file: file.write('new')
            print(open('../d/plain').read(), attempt(lambda: os.getxattr('plain', 'user.protectfs.class')))
            with open('../d/first-unlock', 'rb') as file: whole = file.read()
            with open('../d/mangled', 'wb') as file: file.write(b'\\n' + whole[1:])
            for flags in [os.O_WRONLY, os.O_RDWR | os.O_TRUNC, os.O_WRONLY | os.O_APPEND]:
                print(attempt(lambda: os.open('mangled', flags)), attempt(lambda: os.truncate('mangled', 0)))
            print(open('../d/mangled', 'rb').read() == b'\\n' + whole[1:])
            """)
        #expect(
            done.text == """
                Plain
                more
                Pla 3
                new ENODATA
                EIO EIO
                EIO EIO
                EIO EIO
                True

                """, "\(done.errors)")
    }

    @Test("No way of saving lowers a class: by backup names, by removing first, by links, by directories made anew")
    func waysOfSaving() throws {
        let done = try bed.script(
            """
            def named(name): return attempt(lambda: os.getxattr(name, 'user.protectfs.class').decode())
            def make(name):
                with open(name, 'w') as file: file.write('text of ' + name)
            def begin(directory):
                os.mkdir(directory)
                os.chdir(directory)
                make('a'); make('t')
                run('class', 'a', 'complete')
                print(named('t'), end=' ')
            begin('0'); os.rename('a', 'a~'); os.rename('t', 'a'); print(named('a')); os.chdir('..')
            begin('1'); os.unlink('a'); os.rename('t', 'a'); print(named('a')); os.chdir('..')
            begin('2'); os.unlink('a'); os.link('t', 'a'); print(named('a'), named('t')); os.chdir('..')
            begin('3'); os.rename('a', 'a~'); run('lock', '--require-clean')
            print(attempt(lambda: os.rename('t', 'a')), os.path.exists('a'), attempt(lambda: os.link('t', 'a')))
            unlock()
            os.chdir('..'); os.mkdir('q'); make('q/x'); run('class', 'q/x', 'complete')
            os.unlink('q/x'); os.rmdir('q'); os.mkdir('other'); make('other/x'); os.mkdir('q'); make('q/x'); make('q/y')
            print(named('other/x'), named('q/x'), named('q/y'))
            os.unlink('q/x'); os.rename('q', 'r'); make('r/x'); print(named('r/x'))
            print(verb('verify', '--recursive', '../d').returncode)
            """)
        #expect(
            done.text == """
                first-unlock complete
                first-unlock complete
                first-unlock complete complete
                first-unlock ENOKEY False ENOKEY
                first-unlock complete first-unlock
                complete
                0

                """, "\(done.errors)")
    }
}
